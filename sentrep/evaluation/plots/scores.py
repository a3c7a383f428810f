"""The cosine of sentence pairs against people's judgement."""

from __future__ import annotations

import numpy as np
import scipy.stats
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentrep.errors import InputError
from sentrep.evaluation.plots.style import BLUE, new_figure, styled

_SCATTERED = 1000
"""Up to this many pairs each is a point; more are counted in hexagons."""


def draw_scores(cosines: NDArray[np.floating], gold: NDArray[np.floating], name: str) -> Figure:
    """Draw gold scores (x) and cosines (y), with Spearman's correlation × 100 in the corner.

    Args:
        cosines: (P,).
        gold: (P,).
        name: of the set.

    Raises:
        InputError: there is no correlation, because all cosines or all scores are equal.
    """
    if not (np.ptp(cosines) > 0 and np.ptp(gold) > 0):
        raise InputError(f"{name}: no rank correlation exists, because all cosines or all gold scores are equal")
    spearman = 100 * float(scipy.stats.spearmanr(cosines, gold).statistic)
    with styled():
        figure = new_figure(2.5)
        axis = figure.add_subplot()
        if len(gold) <= _SCATTERED:
            axis.scatter(gold, cosines, s=6, color=BLUE, alpha=0.4, linewidths=0)
        else:
            counts = axis.hexbin(gold, cosines, gridsize=(24, 14), cmap="cividis_r", mincnt=1, linewidths=0.2)
            bar = figure.colorbar(counts, ax=axis, label="pairs", pad=0.02)
            bar.outline.set_visible(False)
        axis.set_title(f"{name}, {len(gold):,} pairs", loc="left")
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
        axis.text(
            0.98, 0.03, f"Spearman × 100: {spearman:.1f}", bbox=box, transform=axis.transAxes, ha="right", va="bottom"
        )
        axis.set_xlabel("gold score")
        axis.set_ylabel("cosine")
    return figure
