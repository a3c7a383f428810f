"""Pictures of single sentences: their neighbours, their similarities, and where a training has moved them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.plots.style import PAGE, legend_below, new_figure, styled
from sentrep.functional.similarity import cosine_similarity_matrix

Method = Literal["pca", "tsne"]

_LETTERS = 90
"""Letters of a sentence in a line across the page."""
_SHORT = 28
"""Letters of a sentence beside a map or a matrix."""
_MOST_ROWS = 40
"""Most rows of a matrix: more lines cannot be read."""
_MOST_NUMBERS = 12
_MOST_WORDS = 15
_LINE = 0.17
"""Inches of a line."""


def draw_neighbours(
    encoder: SentenceEncoder, queries: str | Sequence[str], corpus: Sequence[str], k: int = 5
) -> Figure:
    """Draw the k nearest sentences of each query by rank, with their cosines; the query itself is left out.

    Args:
        encoder: encodes both, by `SentenceEncoder.encode_query` and `SentenceEncoder.encode_document`.
        queries: one or a few.
        corpus: where to look.
        k: how many for each.
    """
    asked = [queries] if isinstance(queries, str) else list(queries)
    texts = list(corpus)
    vectors = [
        torch.as_tensor(encode(some, show_progress_bar=False))
        for encode, some in ((encoder.encode_query, asked), (encoder.encode_document, texts))
    ]
    cosine, order = cosine_similarity_matrix(*vectors).cpu().sort(dim=1, descending=True, stable=True)
    with styled():
        figure = new_figure(_LINE * (len(asked) * (k + 1.6) + 0.6), PAGE)
        axis = figure.add_subplot()
        line = 0.0
        for query, places, scores in zip(asked, order.tolist(), cosine.tolist(), strict=True):
            axis.text(0, line, _cut(query, _LETTERS), weight="bold", va="center")
            best = [pair for pair in zip(places, scores, strict=True) if texts[pair[0]] != query][:k]
            for rank, (place, score) in enumerate(best, start=1):
                line += 1
                axis.text(0.02, line, f"{rank}.   {score:.2f}   {_cut(texts[place], _LETTERS)}", va="center")
            line += 1.6
        axis.set_ylim(line, -0.8)
        axis.set_axis_off()
    return figure


def draw_similarities(
    encoder: SentenceEncoder, sentences: Sequence[str], others: Sequence[str] | None = None
) -> Figure:
    """Draw the cosines of some sentences with each other, or with others, as a heat map; few of them as numbers, too.

    Args:
        encoder: encodes all.
        sentences: the lines, at most 40.
        others: the columns, at most 40; None: the same again.

    Raises:
        InputError: for none or more.
    """
    columns = sentences if others is None else others
    for texts in (sentences, columns):
        if isinstance(texts, str) or not 1 <= len(texts) <= _MOST_ROWS:
            raise InputError(f"a heat map takes 1 to {_MOST_ROWS} sentences in a list, got {len(texts)}")
    vectors = [torch.as_tensor(encoder.encode(list(texts), show_progress_bar=False)) for texts in (sentences, columns)]
    cosine = cosine_similarity_matrix(*vectors).cpu().numpy()
    with styled():
        side = _LINE * max(len(sentences), 0.7 * len(columns)) + 1.6
        figure = new_figure(max(side, 2.4), PAGE)
        axis = figure.add_subplot()
        image = axis.imshow(cosine, cmap="Blues", vmin=min(0.0, float(cosine.min())), vmax=1.0, aspect="auto")
        axis.set_yticks(range(len(sentences)), [_cut(text, _SHORT) for text in sentences])
        axis.set_xticks(range(len(columns)), [_cut(text, _SHORT) for text in columns], rotation=40, ha="right")
        axis.grid(visible=False)
        if max(cosine.shape) <= _MOST_NUMBERS:
            for (row, column), value in np.ndenumerate(cosine):
                colour = "white" if value > 0.6 else "black"
                axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour)
        figure.colorbar(image, ax=axis, label="cosine", pad=0.02).outline.set_visible(False)
    return figure


def draw_before_after(
    before: SentenceEncoder,
    after: SentenceEncoder,
    sentences: Sequence[str],
    labels: Sequence[str] | None = None,
    *,
    method: Method = "pca",
    seed: int = 0,
) -> Figure:
    """Draw a map of sentences by one encoder beside that by another: what a training has done.

    Each map has axes of its own (`project`): compare who is near whom, not the places. Up to 15 sentences without
    labels are written beside their points.

    Args:
        before: the left map's.
        after: the right map's.
        sentences: at least four.
        labels: one for each sentence, told apart by colour and marker.
        method: see `project`.
        seed: of the method.

    Raises:
        InputError: for fewer sentences, or labels of another number.
    """
    if labels is not None and len(labels) != len(sentences):
        raise InputError(f"{len(labels)} labels for {len(sentences)} sentences; give one for each, or leave them out")
    own = np.array([""] * len(sentences) if labels is None else labels)
    groups = sorted(set(own))
    with styled():
        figure = new_figure(3.1 + 0.13 * (-(-len(groups) // 4)), PAGE)
        axes: Sequence[Axes] = figure.subplots(1, 2)
        for axis, encoder, title in zip(axes, (before, after), ("before", "after"), strict=True):
            vectors = np.asarray(encoder.encode(list(sentences), show_progress_bar=False))
            points, names = project(vectors, method, seed)
            size = 8 if len(points) <= 500 else 3
            for number, group in enumerate(groups):
                x, y = points[own == group].T
                colour, marker = f"C{number}", "os^DvPX"[number % 7]
                axis.scatter(x, y, s=size, color=colour, marker=marker, linewidths=0, alpha=0.75, label=group or None)
            axis.set(xlabel=names[0], ylabel=names[1], xticks=[], yticks=[])  # places mean nothing
            axis.set_aspect("equal", adjustable="datalim")
            axis.set_title(title, loc="left")
            named = labels is None and len(sentences) <= _MOST_WORDS
            for point, text in zip(points, sentences, strict=True) if named else ():
                side, shift = ("left", 3) if point[0] < points[:, 0].mean() else ("right", -3)  # towards the middle
                axis.annotate(_cut(text, _SHORT), point, (shift, 3), textcoords="offset points", ha=side)
        legend_below(figure)
    return figure


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


def _cut(text: str, letters: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[: letters - 1]}…"
