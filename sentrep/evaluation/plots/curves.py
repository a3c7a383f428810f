"""Training curves: loss, development score, alignment and uniformity of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, MaxNLocator

from sentrep.evaluation.plots.style import (
    BLUE,
    DOTS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    legend_below,
    new_figure,
    styled,
)
from sentrep.evaluation.sts import display_name
from sentrep.io.text import printable

_TITLES = {
    "train/loss": "loss",
    "val/sts": "dev Spearman × 100",
    "train/alignment": "alignment (↓), may rise\nas all vectors spread out",
    "train/uniformity": "uniformity (↓)",
}
"""The panels."""
_LOOKS = ((ORANGE, "-"), (GREEN, "--"), (PURPLE, "-."))
"""Of the development sets; the lines of more sets would hide their mean."""


def plot_training_curves(
    history: pd.DataFrame, path: str | Path, *, best_step: int | None = None, monitor: str | None = None
) -> None:
    """Write a picture of loss, development Spearman, alignment and uniformity against the optimiser step.

    Development scores before training (step 0) are open circles, with a dotted line across for comparison. If the run
    replaced the start model's pooling, a dashed line marks the untouched start model (``untouched/sts``).
    Alignment and uniformity are drawn for the training batches and the development sets (in the colours of their
    scores).

    Args:
        history: by step, a column for each metric (``train/loss``, ``val/sts``, ``train/alignment``, ...), as
            ``metrics.csv`` has it. A missing metric has no panel.
        path: picture to write; ``.png`` or ``.svg``.
        best_step: step of the chosen checkpoint, to be marked.
        monitor: the metric that chose it; a metric that is no development score gets its own panel.
    """
    history = history.dropna(axis="columns", how="all")
    sets = [name for name in history if re.fullmatch("val/[^/]+", name) and name != "val/sts"]
    loss, *others = _TITLES
    own = [monitor] if monitor is not None and monitor in history and monitor not in {*_TITLES, *sets} else []
    panels = {panel: list(_lines(history, panel, sets)) for panel in (loss, *own, *others)}
    panels = {panel: lines for panel, lines in panels.items() if lines}
    rows, columns = -(-len(panels) // 2), min(len(panels), 2)
    with styled():
        figure = new_figure(1.5 * rows + 0.5)
        for number, (panel, lines) in enumerate(panels.items()):
            axis = figure.add_subplot(rows, columns, number + 1)
            for values, look in lines:
                axis.plot(values, **look)
            axis.set_title(printable(panel) if panel in own else _TITLES[panel], loc="left")
            axis.set_xlim(-0.03 * history.index[-1], 1.03 * history.index[-1])
            axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))  # 10k for 10,000
            axis.yaxis.set_major_locator(MaxNLocator(5))
            axis.set_xlabel("optimiser step" if number >= len(panels) - columns else "")
            if best_step is not None:
                axis.axvline(best_step, color=GREY, linewidth=0.7, linestyle=(0, (4, 2)), zorder=1)
            if not panel.startswith("train/"):
                _mark(axis, lines[-1][0], best_step)
            if panel == "val/sts" and "untouched/sts" in history:
                score = history["untouched/sts"].max()
                axis.axhline(score, color=PURPLE, linewidth=0.9, linestyle="--", label=f"untouched: {score:.1f}")
        legend_below(figure)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DOTS)


def _lines(history: pd.DataFrame, panel: str, sets: list[str]) -> Iterator[tuple[pd.Series, dict[str, Any]]]:
    """Values and look of the lines of a panel: the sets', then the run's own."""
    measure = "" if panel == "val/sts" else panel.removeprefix("train")
    for name, (colour, line) in zip(sets, _LOOKS, strict=False) if len(sets) <= len(_LOOKS) else ():
        if f"{name}{measure}" in history:
            label = display_name(name.removeprefix("val/"))
            look = {"color": colour, "linestyle": line, "marker": ".", "markersize": 3, "label": label}
            yield history[f"{name}{measure}"].dropna(), look
    if panel in history and (panel, len(sets)) != ("val/sts", 1):  # one set is its own mean
        of_batches = {"label": "training batches"} if measure in ("/alignment", "/uniformity") else {}
        of_sets = {"marker": ".", "markersize": 3, "label": f"mean of {len(sets)}" if panel == "val/sts" else None}
        yield history[panel].dropna(), {"color": BLUE, **(of_batches if panel.startswith("train/") else of_sets)}


def _mark(axis: Axes, scores: pd.Series, best_step: int | None) -> None:
    """The starting point and the chosen checkpoint; their values go to the legend, where nothing overlaps."""
    circle: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 4, "color": "black", "zorder": 4}
    if 0 in scores:
        axis.axhline(scores[0], color=GREY, linewidth=0.7, linestyle=":", zorder=1)
        axis.plot([0], [scores[0]], **circle, markerfacecolor="white", label=f"before: {scores[0]:.1f}")
    if best_step is not None and best_step in scores:
        score = scores[best_step]
        axis.plot([best_step], [score], **circle, label=f"chosen, step {best_step}: {score:.1f}")
