"""Cosines of positive pairs against those of in-batch negatives, before and after training (DCLR, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sentrep.errors import InputError
from sentrep.evaluation.plots.style import BLUE, ORANGE, legend_below, new_figure, styled
from sentrep.evaluation.runs import read_rows

FILE = "cosines.csv"
"""Its name in the folder of a run."""
KINDS = {
    "positive": {"color": BLUE, "linestyle": "-", "label": "positives"},
    "negative": {"color": ORANGE, "linestyle": "--", "label": "in-batch negatives"},
}

Histograms = dict[int, dict[str, tuple[np.ndarray, np.ndarray]]]
"""By optimiser step and kind (``positive``, ``negative``): counts (B,) and edges (B + 1,)."""


def read_cosines(folder: str | Path) -> Histograms:
    """Read the histograms that `CosineMonitor` leaves in the folder of a run.

    Raises:
        InputError: there are none, or the file is damaged.
    """
    file = Path(folder) / FILE
    if not file.is_file():
        raise InputError(f"{folder}: no {FILE}; add CosineMonitor to trainer.callbacks and train again")
    bins: dict[int, dict[str, list[tuple[float, float, float]]]] = {}
    for line, row in read_rows(file):
        try:
            of_step = bins.setdefault(int(row["step"]), {kind: [] for kind in KINDS})
            of_step[row["kind"]].append((float(row["left"]), float(row["right"]), float(row["count"])))
        except (KeyError, ValueError) as error:
            raise InputError(f"{file}, line {line}: not a bin of a histogram ({error})") from None
    if not bins or not all(kind for of_step in bins.values() for kind in of_step.values()):
        raise InputError(f"{file}: no histogram of positives and negatives in it; was a step monitored?")
    return {step: {kind: _counts(rows) for kind, rows in of_step.items()} for step, of_step in bins.items()}


def draw_cosines(runs: Mapping[str, Histograms]) -> Figure:
    """Draw the first and the last monitored step of every run; each histogram has the area 1.

    Args:
        runs: by label; a row of two panels each, or of one where only one step was monitored.
    """
    columns = max(len({min(histograms), max(histograms)}) for histograms in runs.values())
    with styled():
        figure = new_figure(1.35 * len(runs) + 0.55)
        axes = figure.subplots(len(runs), columns, sharex=True, sharey="row", squeeze=False)
        for row, (label, histograms) in zip(axes, runs.items(), strict=True):
            steps = sorted({min(histograms), max(histograms)})
            for axis, step in zip(row, steps, strict=False):
                _draw(axis, histograms[step])
                axis.set_title(f"step {step:,}", loc="left")
            for axis in row[len(steps) :]:
                axis.set_axis_off()
            row[0].set_ylabel(f"{label}\ndensity" if len(runs) > 1 else "density")
        axes[0, 0].set_xlim(*_range(runs))
        for axis in axes[-1]:
            axis.set_xlabel("cosine")
        legend_below(figure)
    return figure


def _draw(axis: Axes, histograms: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for kind, look in KINDS.items():
        counts, edges = histograms[kind]
        density = counts / (max(counts.sum(), 1) * np.diff(edges))
        axis.stairs(density, edges, fill=True, color=look["color"], alpha=0.25)
        axis.stairs(density, edges, linewidth=1.0, **look)  # type: ignore[arg-type]


def _range(runs: Mapping[str, Histograms]) -> tuple[float, float]:
    """Where the drawn histograms are not empty, with a little room, so that no panel is mostly blank."""
    places = [
        (edges[:-1][counts > 0].min(), edges[1:][counts > 0].max())
        for histograms in runs.values()
        for step in {min(histograms), max(histograms)}
        for counts, edges in histograms[step].values()
        if counts.any()
    ]
    low, high = (min(p[0] for p in places), max(p[1] for p in places)) if places else (-1.0, 1.0)
    return low - 0.05, high + 0.05


def _counts(rows: list[tuple[float, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    ordered = sorted(rows)
    return np.array([count for *_, count in ordered]), np.array([*(left for left, *_ in ordered), ordered[-1][1]])
