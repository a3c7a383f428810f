"""The pictures of a comparison: every seed of every recipe, differences with their intervals, ours beside a paper's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sentrep.evaluation.plots.style import BLUE, GREY, ORANGE, PAGE, new_figure, styled
from sentrep.evaluation.significance import LEVEL, Array
from sentrep.reports.text import printable

_LINE = 0.12
"""Inches of a name's line."""
_LEADER = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 3, "relpos": (0, 0.5)}


def draw_comparison(rows: pd.DataFrame, seeds: Mapping[str, Array], measure: str = "Spearman") -> Figure:
    """Draw seeds and means (left), and differences to the baseline with 95 % intervals, orange without 0 (right).

    Args:
        rows: of `sentrep.evaluation.comparison.Comparison.numbers`, those that were run.
        seeds: by row, the mean score of each of its seeds.
        measure: name of the scores.
    """
    heights = range(len(rows))
    gaps = rows[["difference", "low", "high", "p"]].astype(float)
    colours = np.where(gaps["p"] < LEVEL, ORANGE, GREY)
    published = "published" in rows and rows["published"].notna().any()
    with styled():
        figure = new_figure(0.9 + 0.24 * len(rows), PAGE)
        left, right = figure.subplots(1, 2, sharey=True)
        for height, label in enumerate(rows.index):
            left.plot(seeds[label], [height] * len(seeds[label]), "o", color=GREY, markersize=3, alpha=0.8, zorder=2)
        left.plot(rows["mean"], heights, "|", color=BLUE, markersize=11, markeredgewidth=1.8, zorder=3)
        if published:
            left.plot(rows["published"], heights, "D", color=ORANGE, fillstyle="none", markersize=5, zorder=4)
        right.hlines(heights, gaps["low"], gaps["high"], colors=colours, linewidth=1.4)
        right.scatter(gaps["difference"], heights, s=16, c=colours, zorder=2)
        right.axvline(0, color="black", linewidth=0.6)
        left.set_yticks(heights, [printable(label) for label in rows.index])
        left.set_ylim(len(rows) - 0.5, -0.5)
        left.set_xlabel(f"mean {measure} × 100 (each seed, and their mean{'; ◇ published' if published else ''})")
        right.set_xlabel(f"difference to {rows.index[rows['verdict'] == 'baseline'][0]}, 95 % interval")
    return figure


def draw_beside_published(rows: pd.DataFrame, title: str, released: Collection[str] = ()) -> Figure:
    """Draw our mean ± standard deviation over the published number, a point and a name for each row.

    Args:
        rows: of `sentrep.evaluation.comparison.Comparison.numbers`; those without a published number, or without a run,
            are left out.
        title: to stand above.
        released: rows that are readings of released code; their points are hollow.
    """
    rows = rows.dropna(subset=["mean", "published"])
    hollow = rows.index.isin(list(released))
    with styled():
        height = max(2.0, _LINE * len(rows))
        figure = new_figure(height + 0.6, PAGE)
        axes = figure.subplots()
        for own, colour, fill in ((rows[~hollow], BLUE, BLUE), (rows[hollow], ORANGE, "white")):
            look: Any = {"fmt": "o", "color": colour, "markersize": 4, "markerfacecolor": fill, "elinewidth": 0.8}
            axes.errorbar(own["published"], own["mean"], own["mean sd"].fillna(0), **look)
        axes.set_xlabel(f"published{'; ○ as the released code does it' if hollow.any() else ''}")
        axes.set_ylabel("here: mean ± sd over seeds")
        axes.set_title(title)
        low, high = axes.get_ylim()
        for label, place in _spread(rows["mean"], low, high, (high - low) * _LINE / height).items():
            axes.annotate(
                printable(label),
                rows.loc[label, ["published", "mean"]],
                (1.03, (place - low) / (high - low)),
                textcoords="axes fraction",
                va="center",
                arrowprops=_LEADER,
            )
    return figure


def _spread(heights: pd.Series, low: float, high: float, gap: float) -> pd.Series:
    """Move heights apart by at least the gap, in their order, between low and high, and as little as possible."""
    heights = heights.sort_values(kind="stable")
    steps = gap * np.arange(len(heights))
    free = heights.to_numpy() - steps
    free = (np.maximum.accumulate(free) + np.minimum.accumulate(free[::-1])[::-1]) / 2  # in order, and centred
    return pd.Series(np.clip(free, low, high - steps[-1]) + steps, heights.index)
