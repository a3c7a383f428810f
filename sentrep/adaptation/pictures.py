"""The pictures of an adaptation: the proxy while it was trained and between start and end, and the map of its texts."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentrep.evaluation.plots.style import BLUE, COLOURS, GREY, LINES, legend_below, new_figure, styled

_HEIGHT = 2.2
_GROUPS = 6
_LONGEST = 140
"""Letters of a text that a point of the map says."""
_TASKS = [(colour, line) for colour, line in zip(COLOURS[1:6], (*LINES[1:], LINES[1]), strict=True)]


def draw_curve(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Draw the proxy (thick) and its tasks over the steps, with the untouched model as a level line.

    Args:
        rows: each with ``step`` and some of ``proxy`` (in at least one) and ``proxy/<task>``; step 0 is untouched.
    """
    tasks = dict.fromkeys(name for row in rows for name in row if name.startswith("proxy/"))
    with styled():
        figure = new_figure(_HEIGHT)
        axis = figure.add_subplot()
        for task, (colour, line) in zip(tasks if len(tasks) > 1 else (), _TASKS, strict=False):
            steps, values = _columns(rows, task)
            axis.plot(steps, values, color=colour, linestyle=line, linewidth=0.8, label=task.removeprefix("proxy/"))
        steps, values = _columns(rows, "proxy")
        if steps[0] == 0:
            axis.axhline(values[0], color=GREY, linestyle="--", label="untouched model")
        axis.plot(steps, values, color=BLUE, marker="o", markersize=3, linewidth=1.8, label="proxy")
        axis.set_xlabel("optimiser step")
        axis.set_ylabel("score × 100")
        legend_below(figure)
    return figure


def draw_weights(
    points: Sequence[tuple[float, float]], of: str = "the trained end", without: str = "untouched model"
) -> Figure:
    """Draw the proxy by the weight of something, and mark the best.

    Args:
        points: at least one (weight, proxy).
        of: what is weighed.
        without: what weight 0 is, drawn as a level line.
    """
    with styled():
        figure = new_figure(_HEIGHT)
        axis = figure.add_subplot()
        points = sorted(points)
        weights, values = zip(*points, strict=True)
        if weights[0] == 0:
            axis.axhline(values[0], color=GREY, linestyle="--", label=without)
        axis.plot(weights, values, color=BLUE, marker="o", markersize=3, label="proxy")
        weight, value = max(points, key=lambda point: point[1])
        axis.plot([weight], [value], "o", color="black", zorder=4, label=f"best: {value:.1f} at {weight:g}")
        axis.set_xticks(weights, [f"{weight:g}" for weight in weights])
        axis.set_xlabel(f"weight of {of}")
        axis.set_ylabel("score × 100")
        legend_below(figure)
    return figure


def map_dots(
    before: NDArray[np.floating], after: NDArray[np.floating], texts: Sequence[str], seed: int = 0
) -> dict[str, list[tuple[float, float, str, str]]]:
    """Two maps of the same texts on one scale, as `Maps` takes them; a colour for each group of the map before.

    Args:
        before: (n, 2) around the origin.
        after: (n, 2).
        texts: n.
        seed: of the grouping.
    """
    from sklearn.cluster import KMeans

    groups = KMeans(min(_GROUPS, len(np.unique(before, axis=0))), n_init=1, random_state=seed).fit_predict(before)
    colours = [COLOURS[group % len(COLOURS)] for group in groups.tolist()]
    shown = [textwrap.shorten(text, _LONGEST, placeholder=" …") for text in texts]
    reach = max(float(np.abs([before, after]).max()), 1e-12)
    maps = {}
    for name, points in (("Before", before), ("After", after)):
        places = (50 + 48 * points / reach * [1, -1]).round(2).tolist()
        maps[name] = [(x, y, colour, text) for (x, y), colour, text in zip(places, colours, shown, strict=True)]
    return maps


def _columns(rows: Sequence[Mapping[str, float]], name: str) -> tuple[list[float], list[float]]:
    there = [row for row in rows if name in row]
    return [row["step"] for row in there], [row[name] for row in there]
