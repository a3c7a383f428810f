"""The course of training: loss, development score, alignment and uniformity of a run, or any metric of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from sentrep.errors import InputError
from sentrep.evaluation.history import Course
from sentrep.evaluation.label_free import CRITERIA
from sentrep.evaluation.plots.style import (
    BLUE,
    DOTS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    legend_below,
    looks,
    metric_label,
    new_figure,
    styled,
)
from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.sts import display_name

_DEV_COLOURS = (ORANGE, GREEN, PURPLE)
_DEV_LINES = ("-", "--", "-.")
PANELS = ("train/loss", "val/sts", "train/alignment", "train/uniformity")
"""The metrics that are drawn where none are named."""
_PROXY = f"val/{CRITERION}"
"""The score of the tasks that a text's own structure gives; ``val/proxy/<task>`` are drawn beside it."""
_SMOOTHED_FROM = 60
"""Points of a noisy course from which a running mean is drawn over it."""


def plot_training_curves(
    history: Mapping[str, Course], path: str | Path, *, best_step: int | None = None, monitor: str | None = None
) -> None:
    """Draw loss, development Spearman, alignment and uniformity against the optimiser step.

    Development scores at step 0 are those before training; they are drawn as an open circle with a dotted line
    across, so that the eye sees what training has changed, and a dashed one at the score of the untouched start model
    where its own pooling was replaced (``untouched/sts``). ``val/proxy`` is drawn alike, with its tasks. Alignment
    and uniformity are those of the training batches and, beside these, of the held-out sentences and of the
    development sets (in the colours of their scores).

    Args:
        history: by metric name (``train/loss``, ``val/sts``, ``train/alignment``, ...), (step, value) in rising order.
            A metric that is not there leaves its panel out.
        path: picture to write; ``.png`` or ``.svg``.
        best_step: step of the chosen checkpoint, to be marked.
        monitor: metric that it was chosen by; one of held-out sentences has a panel of its own.

    Raises:
        InputError: for another ending, or a history without any of these.
    """
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"{path}: training curves are drawn as .png or .svg, not {path.suffix!r}")
    dev = {name: course for name, course in history.items() if _is_dev_score(name) and course}
    others = {panel: _others(history, dev, panel) for panel in PANELS}
    shown = bool(dev) and ("val/sts" in dev or bool(_dev_looks(dev)))
    panels = [name for name in PANELS if (shown if name == "val/sts" else history.get(name) or others[name])]
    if history.get(_PROXY):
        panels.insert(1, _PROXY)
    if monitor is not None and monitor not in dev and monitor not in panels and history.get(monitor):
        panels.insert(1, monitor)
    if not panels:
        raise InputError(f"{path}: nothing to draw, the run has logged no loss, development score or geometry")
    last_step = max(course[-1][0] for course in history.values() if course)
    with styled():
        figure, axes = _grid(panels, last_step)
        for panel, axis in zip(panels, axes, strict=True):
            if best_step is not None:
                axis.axvline(best_step, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
            if panel == _PROXY:
                tasks = {name: course for name, course in history.items() if name.startswith(f"{_PROXY}/") and course}
                _draw_dev(axis, history[_PROXY], tasks, best_step)
                continue
            if panel == "val/sts":
                sets = {name: course for name, course in dev.items() if name != "val/sts"}
                _draw_dev(axis, dev.get("val/sts", []), sets, best_step)
                for _, score in history.get("untouched/sts", []):
                    axis.axhline(score, color=PURPLE, linewidth=0.9, linestyle="--", label=f"untouched: {score:.1f}")
                continue
            if panel == monitor:
                axis.plot(*_columns(history[panel]), color=BLUE, marker=".", markersize=3)
                _mark(axis, dict(history[panel]), best_step)
                continue
            if course := history.get(panel):
                label = "training batches" if others[panel] else None
                window = len(course) // 20 if len(course) >= _SMOOTHED_FROM else 1
                _draw_course(axis, course, window, color=BLUE, label=label)
            for look, course in others[panel]:
                axis.plot(*_columns(course), marker=".", markersize=3, **look)
        legend_below(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DOTS)


def draw_curves(
    runs: Mapping[str, Mapping[str, Course]], metrics: Sequence[str] | None = None, smooth: int = 1
) -> Figure:
    """Draw metrics of several runs against the optimiser step, a panel per metric and a line per run.

    Args:
        runs: by label, the courses of a run by metric.
        metrics: what to draw; None means those of `PANELS` that some run has.
        smooth: points of the running mean of ``train/`` metrics; above 1 the points themselves are drawn faintly
            behind it. Other metrics, which are means already, are drawn as they are.

    Raises:
        InputError: no run has a metric, or ``smooth`` is below 1.
    """
    if smooth < 1:
        raise InputError(f"smooth {smooth}: expected the number of points of a running mean, at least 1")
    logged = {name for courses in runs.values() for name, course in courses.items() if course}
    panels = [name for name in PANELS if name in logged] if metrics is None else list(metrics)
    if not panels or (missing := [name for name in panels if name not in logged]):
        what = f"no run has logged {', '.join(missing)}" if panels else "none of the usual metrics was logged"
        raise InputError(f"{what}; there are {', '.join(sorted(logged)) or 'none'}")
    last_step = max(courses[name][-1][0] for courses in runs.values() for name in panels if courses.get(name))
    with styled():
        figure, axes = _grid(panels, last_step)
        for panel, axis in zip(panels, axes, strict=True):
            for (label, courses), look in zip(runs.items(), looks(list(runs)).values(), strict=True):
                if courses.get(panel):
                    window = smooth if panel.startswith("train/") else 1
                    _draw_course(axis, courses[panel], window, label=label if len(runs) > 1 else None, **look)
        legend_below(figure)
    return figure


def _draw_course(axis: Axes, course: Course, window: int, **look: Any) -> None:
    """A course; where a mean runs over it, each at the middle of its points, the points themselves are faint."""
    steps, values = _columns(course)
    if 1 < window <= len(values):
        axis.plot(steps, values, color=look["color"], alpha=0.25, linewidth=0.6)
        values = np.convolve(values, np.ones(window) / window, mode="valid")
        steps = steps[window // 2 : window // 2 + len(values)]
    axis.plot(steps, values, markersize=3, markevery=max(1, len(steps) // 6), **look)


def _grid(panels: Sequence[str], last_step: int) -> tuple[Figure, list[Axes]]:
    columns = min(len(panels), 2)
    rows = -(-len(panels) // 2)
    figure = new_figure(1.5 * rows + 0.5)
    axes = [figure.add_subplot(rows, columns, number + 1) for number in range(len(panels))]
    for number, (panel, axis) in enumerate(zip(panels, axes, strict=True)):
        axis.set_title(metric_label(panel), loc="left")
        axis.set_xlim(-0.03 * max(1, last_step), 1.03 * max(1, last_step))
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10k for 10,000
        axis.yaxis.set_major_locator(MaxNLocator(5))
        if number >= len(panels) - columns:
            axis.set_xlabel("optimiser step")
    return figure, axes


def _is_dev_score(name: str) -> bool:
    """True for ``val/sts`` and ``val/<set>``: not what else is known of a set, nor the criteria without labels."""
    stage, _, rest = name.partition("/")
    return stage == "val" and "/" not in rest and rest not in (*CRITERIA, CRITERION)


def _dev_looks(dev: Mapping[str, Course]) -> dict[str, dict[str, Any]]:
    """By metric of a set, how it is drawn; beyond a handful of sets their own lines only hide the mean."""
    sets = [name for name in dev if name != "val/sts"]
    if len(sets) > len(_DEV_COLOURS):
        return {}
    return {
        name: {"color": colour, "linestyle": line, "label": display_name(name.rpartition("/")[2])}
        for name, colour, line in zip(sets, _DEV_COLOURS, _DEV_LINES, strict=False)
    }


def _others(history: Mapping[str, Course], dev: Mapping[str, Course], panel: str) -> list[tuple[Any, Course]]:
    """Look and course of what is drawn beside a training metric: that of held-out sentences, of development sets."""
    metric = panel.removeprefix("train/")
    courses = {f"{name}/{metric}": look for name, look in _dev_looks(dev).items()}
    if metric in CRITERIA:
        courses[f"val/{metric}"] = {"color": SKY, "linestyle": ":", "label": "held-out sentences"}
    return [(look, history[name]) for name, look in courses.items() if history.get(name)]


def _draw_dev(axis: Axes, mean: Course, sets: Mapping[str, Course], best_step: int | None) -> None:
    main = next(iter(sets.values())) if len(sets) == 1 else mean
    for name, look in _dev_looks(sets).items():
        axis.plot(*_columns(sets[name]), marker=".", markersize=3, **look)
    if main and len(sets) != 1:
        axis.plot(*_columns(main), color=BLUE, marker=".", markersize=3, linewidth=1.6, label=f"mean of {len(sets)}")
    _mark(axis, dict(main), best_step)


def _mark(axis: Axes, scores: Mapping[int, float], best_step: int | None) -> None:
    """The starting point and the chosen checkpoint; their values go to the legend, where nothing overlaps."""
    circle: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 4, "color": "black", "zorder": 4}
    if 0 in scores:
        axis.axhline(scores[0], color=GREY, linewidth=0.7, linestyle=":", zorder=1)
        axis.plot([0], [scores[0]], **circle, markerfacecolor="white", label=f"before: {scores[0]:.1f}")
    if best_step is not None and best_step in scores:
        score = scores[best_step]
        axis.plot([best_step], [score], **circle, label=f"chosen, step {best_step}: {score:.1f}")


def _columns(course: Sequence[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    steps, values = zip(*course, strict=True)
    return np.array(steps), np.array(values)
