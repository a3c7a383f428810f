"""Pictures of an encoder: embeddings in two dimensions, and the cosine of pairs against people's judgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.stats
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentrep.errors import InputError
from sentrep.evaluation.plots.style import BLUE, COLOURS, MARKERS, legend_below, new_figure, styled

Method = Literal["pca", "tsne"]

MOST_LABELS = len(COLOURS) * len(MARKERS)
"""More could not be told apart."""
_SCATTERED = 1000
"""Up to this many pairs each is a point; more are counted in hexagons."""


def project(vectors: NDArray[np.floating], method: Method = "pca", seed: int = 0) -> tuple[NDArray, tuple[str, str]]:
    """Project vectors onto a plane.

    Vectors are scaled to length 1 first, because the cosine is what they are compared by.

    Args:
        vectors: (N, D) with N ≥ 4.
        method: ``pca`` keeps distances as well as two dimensions can; ``tsne`` keeps neighbourhoods (perplexity 30, or
            less for few points), and its distances between groups mean nothing.
        seed: of both methods' random parts.

    Returns:
        (N, 2), and what the two axes are called.

    Raises:
        InputError: for fewer than four vectors.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if len(vectors) < 4:
        raise InputError(f"{len(vectors)} sentences; a projection needs at least four")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed {seed}: expected 0 to 4294967295")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    if method == "pca":
        model = PCA(2, random_state=seed)
        points = model.fit_transform(unit)
        shares = [f"PC {number} ({share:.0%})" for number, share in enumerate(model.explained_variance_ratio_, start=1)]
        return points, (shares[0], shares[1])
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return TSNE(2, perplexity=perplexity, random_state=seed).fit_transform(unit), ("t-SNE 1", "t-SNE 2")


def draw_projection(points: NDArray[np.floating], axes: tuple[str, str], labels: Sequence[str] | None = None) -> Figure:
    """Draw points in the plane, a colour and marker for every label.

    Args:
        points: (N, 2).
        axes: names of the axes.
        labels: N labels, at most 49 different ones.

    Raises:
        InputError: for more labels.
    """
    groups, own = group_by(labels, len(points))
    with styled():
        figure = new_figure(2.9 + 0.13 * (-(-len(groups) // 2)))
        scatter(figure.add_subplot(), points, axes, groups, own)
        legend_below(figure)
    return figure


def group_by(labels: Sequence[str] | None, count: int) -> tuple[list[str], NDArray]:
    """The different labels in order, and (N,) whose each point is; no labels are one nameless group.

    Raises:
        InputError: for more different labels than can be told apart, or another number of labels than points.
    """
    groups = sorted(set(labels)) if labels is not None else []
    if len(groups) > MOST_LABELS:
        raise InputError(f"{len(groups)} different labels; at most {MOST_LABELS} can be told apart, so leave them out")
    if labels is not None and len(labels) != count:
        raise InputError(f"{len(labels)} labels for {count} points; give one for each, or leave them out")
    return groups, np.array(labels if labels is not None else [""] * count)


def scatter(
    axis: Axes, points: NDArray[np.floating], axes: tuple[str, str], groups: Sequence[str], own: NDArray
) -> None:
    """Points (N, 2) in the plane, a colour and marker for every group, see `group_by`."""
    size = 8 if len(points) <= 500 else 3
    for number, group in enumerate(groups or [""]):
        place = own == group
        look: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            # another marker for every label, and other pairs of the two after each round of colours
            "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
        }
        axis.scatter(points[place, 0], points[place, 1], s=size, linewidths=0, alpha=0.75, label=group or None, **look)
    axis.set_xlabel(axes[0])
    axis.set_ylabel(axes[1])
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xticks([])  # the places themselves mean nothing
    axis.set_yticks([])


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
