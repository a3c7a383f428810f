"""Embeddings in two dimensions: principal components, or t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentrep.errors import InputError
from sentrep.evaluation.plots.style import COLOURS, MARKERS, legend_below, new_figure, styled

Method = Literal["pca", "tsne"]

MOST_LABELS = len(COLOURS) * len(MARKERS)
"""More could not be told apart."""


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
    groups = sorted(set(labels)) if labels is not None else []
    if len(groups) > MOST_LABELS:
        raise InputError(f"{len(groups)} different labels; at most {MOST_LABELS} can be told apart, so leave them out")
    own = np.array(labels if labels is not None else [""] * len(points))
    size = 8 if len(points) <= 500 else 3
    with styled():
        figure = new_figure(2.9 + 0.13 * (-(-len(groups) // 2)))
        axis = figure.add_subplot()
        for number, group in enumerate(groups or [""]):
            place = own == group
            look: dict[str, Any] = {
                "color": COLOURS[number % len(COLOURS)],
                # another marker for every label, and other pairs of the two after each round of colours
                "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
            }
            axis.scatter(
                points[place, 0], points[place, 1], s=size, linewidths=0, alpha=0.75, label=group or None, **look
            )
        axis.set_xlabel(axes[0])
        axis.set_ylabel(axes[1])
        axis.set_aspect("equal", adjustable="datalim")
        axis.set_xticks([])  # the places themselves mean nothing
        axis.set_yticks([])
        legend_below(figure)
    return figure
