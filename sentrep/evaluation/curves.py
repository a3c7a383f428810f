"""The picture of a training run: loss, development score, alignment and uniformity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from sentrep.errors import InputError
from sentrep.evaluation.history import Course
from sentrep.evaluation.sts import display_name

# Okabe and Ito's palette: told apart with every kind of colour vision, and in grey
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C8C8C"
_DEV_COLOURS = (ORANGE, GREEN, PURPLE)
STYLE: Any = {
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.3,
    "grid.color": "#E0E0E0",
    "axes.axisbelow": True,
    "lines.linewidth": 1.1,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 6.5,
    "svg.fonttype": "none",
}
_PANELS = {
    "train/loss": "loss",
    "val/sts": "dev Spearman × 100 (↑)",
    "train/alignment": "alignment (↓)",
    "train/uniformity": "uniformity (↓)",
}
_SIZE = 3.5, 3.2
"""Inches: the width of a paper's column, so that the type is read at its own size."""
_SMOOTHED_FROM = 60
"""Points of a noisy course from which a running mean is drawn over it."""


def plot_training_curves(history: Mapping[str, Course], path: str | Path, *, best_step: int | None = None) -> None:
    """Draw loss, development Spearman, alignment and uniformity against the optimiser step.

    Development scores at step 0 are those before training; they are drawn as an open circle with a dotted line
    across, so that the eye sees what training has changed.

    Args:
        history: by metric name (``train/loss``, ``val/sts``, ``train/alignment``, ...), (step, value) in rising order.
            A metric that is not there leaves its panel out.
        path: picture to write; ``.png`` or ``.svg``.
        best_step: step of the chosen checkpoint, to be marked.

    Raises:
        InputError: for another ending, or a history without any of the four.
    """
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"{path}: training curves are drawn as .png or .svg, not {path.suffix!r}")
    dev = {name: course for name, course in history.items() if name.startswith("val/") and course}
    panels = [name for name in _PANELS if (dev if name == "val/sts" else history.get(name))]
    if not panels:
        raise InputError(f"{path}: nothing to draw, the run has logged no loss, development score or geometry")
    last_step = max(course[-1][0] for name, course in history.items() if course and (name in panels or name in dev))
    with matplotlib.rc_context(STYLE):
        figure, axes = _grid(panels, last_step)
        for panel, axis in zip(panels, axes, strict=True):
            if best_step is not None:
                axis.axvline(best_step, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
            if panel == "val/sts":
                _draw_dev(axis, dev, best_step)
            else:
                _draw_noisy(axis, history[panel])
        handles = [handle for axis in axes for handle in axis.get_legend_handles_labels()[0]]
        if handles:
            figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1.2, handlelength=1.4)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=300)


def _grid(panels: Sequence[str], last_step: int) -> tuple[Figure, list[Axes]]:
    columns = min(len(panels), 2)
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(_SIZE[0], _SIZE[1] * (1 if rows > 1 else 0.6)), layout="constrained")
    FigureCanvasAgg(figure)  # no pyplot: drawing must not depend on a display, nor leave global state behind
    axes = [figure.add_subplot(rows, columns, number + 1) for number in range(len(panels))]
    for number, (panel, axis) in enumerate(zip(panels, axes, strict=True)):
        axis.set_title(_PANELS[panel], loc="left")
        axis.set_xlim(-0.03 * last_step, 1.03 * last_step)
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10k for 10,000
        axis.yaxis.set_major_locator(MaxNLocator(5))
        if number >= len(panels) - columns:
            axis.set_xlabel("optimiser step")
    return figure, axes


def _draw_noisy(axis: Axes, course: Course) -> None:
    steps, values = _columns(course)
    if len(course) < _SMOOTHED_FROM:
        axis.plot(steps, values, color=BLUE)
        return
    axis.plot(steps, values, color=BLUE, alpha=0.25, linewidth=0.6)
    window = len(course) // 20
    mean = np.convolve(values, np.ones(window) / window, mode="valid")
    axis.plot(steps[window // 2 : window // 2 + len(mean)], mean, color=BLUE)


def _draw_dev(axis: Axes, dev: Mapping[str, Course], best_step: int | None) -> None:
    sets = {name: course for name, course in dev.items() if name != "val/sts"}
    main = next(iter(sets.values())) if len(sets) == 1 else dev.get("val/sts", [])
    # beyond a handful of sets their own lines only hide the mean
    shown = sets if len(sets) <= len(_DEV_COLOURS) else {}
    for (name, course), colour in zip(shown.items(), _DEV_COLOURS, strict=False):
        axis.plot(*_columns(course), color=colour, marker=".", markersize=3, label=display_name(name[len("val/") :]))
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
