"""The picture of a comparison: every seed of every recipe, and differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sentrep.evaluation.plots.style import BLUE, GREY, ORANGE, PAGE, new_figure, styled
from sentrep.evaluation.significance import LEVEL, Array
from sentrep.io.text import printable


def draw_comparison(rows: pd.DataFrame, seeds: Mapping[str, Array]) -> Figure:
    """Draw seeds and means (left), and differences to the baseline with 95 % intervals, orange without 0 (right).

    Args:
        rows: of `sentrep.evaluation.comparison.Comparison.numbers`, those that were run.
        seeds: by row, the mean score of each of its seeds.
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
        left.set_xlabel(f"mean Spearman × 100 (each seed, and their mean{'; ◇ published' if published else ''})")
        right.set_xlabel(f"difference to {rows.index[rows['verdict'] == 'baseline'][0]}, 95 % interval")
    return figure
