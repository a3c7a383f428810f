"""Training curves: loss, development score, alignment and uniformity of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from sentrep.errors import InputError
from sentrep.evaluation.plots.style import (
    BLUE,
    DOTS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    legend_below,
    metric_label,
    new_figure,
    styled,
)
from sentrep.evaluation.sts import display_name

_DEV_COLOURS = (ORANGE, GREEN, PURPLE)
_DEV_LINES = ("-", "--", "-.")
_POINTS: Mapping[str, Any] = {"marker": ".", "markersize": 3}
PANELS = ("train/loss", "val/sts", "train/alignment", "train/uniformity")
"""The metrics that are drawn by default."""
_NOTES = {"train/alignment": ", may rise\nas all vectors spread out"}
"""Explanations of curves that look wrong but are not."""
_SMOOTHED_FROM = 60
"""A noisy curve with so many points gets a running mean."""

Line = tuple[pd.Series, int, Mapping[str, Any]]
"""The drawn values, the points of their running mean, and the style."""


def plot_training_curves(
    history: pd.DataFrame, path: str | Path, *, best_step: int | None = None, monitor: str | None = None
) -> None:
    """Write the figure of `draw_training_curves`.

    Args:
        history: see there.
        path: picture to write; ``.png`` or ``.svg``.
        best_step: see there.
        monitor: see there.
    """
    figure = draw_training_curves(history, best_step, monitor)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS)


def draw_training_curves(history: pd.DataFrame, best_step: int | None = None, monitor: str | None = None) -> Figure:
    """Draw loss, development Spearman, alignment and uniformity against the optimiser step.

    Development scores before training (step 0) are open circles, with a dotted line across for comparison. If the run
    replaced the start model's pooling, a dashed line marks the untouched start model (``untouched/sts``).
    Alignment and uniformity are drawn for the training batches and the development sets (in the colours of their
    scores).

    Args:
        history: by step, a column for each metric (``train/loss``, ``val/sts``, ``train/alignment``, ...), as
            ``metrics.csv`` has it. A missing metric has no panel.
        best_step: step of the chosen checkpoint, to be marked.
        monitor: the metric that chose it; a metric that is no development score gets its own panel.

    Raises:
        InputError: for a history without any of these.
    """
    courses = _courses(history)
    dev = {name: course for name, course in courses.items() if _is_dev_score(name)}
    sets = {name: course for name, course in dev.items() if name != "val/sts"}
    loss, sts, *geometry = PANELS
    panels = {loss: _batches(courses, sets, loss)}
    if monitor in courses and monitor not in (*PANELS, *dev):
        panels[monitor] = [(courses[monitor], 1, {**_POINTS, "color": BLUE})]
    panels[sts] = _scores(courses.get(sts), sets)
    panels |= {metric: _batches(courses, sets, metric) for metric in geometry}
    panels = {name: lines for name, lines in panels.items() if lines}
    if not panels:
        raise InputError("nothing to draw: the run has logged no loss, development score or geometry")
    with styled():
        figure, axes = _drawn(panels)
        for panel, axis in axes.items():
            if best_step is not None:
                axis.axvline(best_step, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
            if not panel.startswith("train/") and (panel in courses or len(panels[panel]) == 1):
                _mark(axis, panels[panel][-1][0], best_step)
        for score in courses.get("untouched/sts", ()) if sts in axes else ():
            axes[sts].axhline(score, color=PURPLE, linewidth=0.9, linestyle="--", label=f"untouched: {score:.1f}")
        legend_below(figure)
    return figure


def _drawn(panels: Mapping[str, Sequence[Line]]) -> tuple[Figure, dict[str, Axes]]:
    """A panel for each metric, in two columns.

    Where a running mean is drawn, each at the middle of its points, the points themselves are faint.
    """
    last_step = max(1, *(course.index[-1] for lines in panels.values() for course, _, _ in lines))
    columns = min(len(panels), 2)
    rows = -(-len(panels) // 2)
    figure = new_figure(1.5 * rows + 0.5)
    axes = {panel: figure.add_subplot(rows, columns, number + 1) for number, panel in enumerate(panels)}
    for number, (panel, axis) in enumerate(axes.items()):
        for course, window, look in panels[panel]:
            if window > 1:
                axis.plot(course, color=look["color"], alpha=0.25, linewidth=0.6)
            axis.plot(course.rolling(window, center=True).mean().dropna(), **look)
        axis.set_title(metric_label(panel) + _NOTES.get(panel, ""), loc="left")
        axis.set_xlim(-0.03 * last_step, 1.03 * last_step)
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10k for 10,000
        axis.yaxis.set_major_locator(MaxNLocator(5))
        if number >= len(panels) - columns:
            axis.set_xlabel("optimiser step")
    return figure, axes


def _courses(history: pd.DataFrame) -> dict[str, pd.Series]:
    """The values by step of every metric that has values."""
    return {name: course.dropna() for name, course in history.items() if course.notna().any()}


def _is_dev_score(name: str) -> bool:
    """True for ``val/sts`` and ``val/<set>``; False for other measures of a set."""
    stage, _, rest = name.partition("/")
    return stage == "val" and "/" not in rest


def _looks_of(sets: Mapping[str, pd.Series]) -> dict[str, dict[str, Any]]:
    """The style of each set's line, by metric; with more than a few sets, their lines would hide the mean."""
    if len(sets) > len(_DEV_COLOURS):
        return {}
    return {
        name: {**_POINTS, "color": colour, "linestyle": line, "label": display_name(name.rpartition("/")[2])}
        for name, colour, line in zip(sets, _DEV_COLOURS, _DEV_LINES, strict=False)
    }


def _scores(mean: pd.Series | None, sets: Mapping[str, pd.Series]) -> list[Line]:
    """A line for each set, and for the mean of several sets."""
    lines: list[Line] = [(sets[name], 1, look) for name, look in _looks_of(sets).items()]
    if mean is not None and len(sets) != 1:
        lines.append((mean, 1, {**_POINTS, "color": BLUE, "linewidth": 1.6, "label": f"mean of {len(sets)}"}))
    return lines


def _batches(courses: Mapping[str, pd.Series], sets: Mapping[str, pd.Series], panel: str) -> list[Line]:
    """A training metric, beside the same metric of development sets."""
    metric = panel.removeprefix("train/")
    beside = {f"{name}/{metric}": look for name, look in _looks_of(sets).items()}
    others: list[Line] = [(courses[name], 1, look) for name, look in beside.items() if name in courses]
    if (course := courses.get(panel)) is None:
        return others
    window = len(course) // 20 if len(course) >= _SMOOTHED_FROM else 1
    return [(course, window, {"color": BLUE, "label": "training batches" if others else None}), *others]


def _mark(axis: Axes, scores: pd.Series, best_step: int | None) -> None:
    """The starting point and the chosen checkpoint; their values go to the legend, where nothing overlaps."""
    circle: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 4, "color": "black", "zorder": 4}
    if 0 in scores:
        axis.axhline(scores[0], color=GREY, linewidth=0.7, linestyle=":", zorder=1)
        axis.plot([0], [scores[0]], **circle, markerfacecolor="white", label=f"before: {scores[0]:.1f}")
    if best_step is not None and best_step in scores:
        score = scores[best_step]
        axis.plot([best_step], [score], **circle, label=f"chosen, step {best_step}: {score:.1f}")
