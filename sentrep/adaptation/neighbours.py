"""The nearest texts of a few examples, before and after training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from sentrep.adaptation.outcome import Neighbours
from sentrep.functional.similarity import cosine_similarity_matrix

Vectors = NDArray[np.floating]
_SAMPLE = 5000
"""Texts among which the groups are looked for."""


def changed_neighbours(
    texts: Sequence[str], before: Vectors, after: Vectors, count: int = 10, nearest: int = 3
) -> tuple[Neighbours, ...]:
    """The nearest others of a few texts that are spread over the corpus; those whose neighbours changed most first.

    The texts are those nearest to the centres of k-means in the space before, so that each stands for a part of the
    corpus. The choice is the same every time.

    Args:
        texts: N.
        before: (N, D) vectors of the model before.
        after: (N, D') of the same texts by the model after.
        count: how many texts; fewer where there are not as many different ones.
        nearest: neighbours of each by cosine; a text equal to it is none.
    """
    rows = _spread(texts, before, count)
    sides = (_nearest(texts, vectors, rows, nearest) for vectors in (before, after))
    found = [Neighbours(texts[row], *both) for row, *both in zip(rows, *sides, strict=True)]
    return tuple(sorted(found, key=lambda one: len(set(one.before) & set(one.after))))


def _spread(texts: Sequence[str], vectors: Vectors, count: int) -> list[int]:
    """Rows of different texts, the nearest ones to the centres of as many groups."""
    from sklearn.cluster import KMeans

    rows = np.array(sorted({text: row for row, text in enumerate(texts)}.values()), dtype=np.int64)
    rows = rows[:: max(1, len(rows) // _SAMPLE)]
    if len(rows) <= count:
        return rows.tolist()
    units = vectors[rows] / np.linalg.norm(vectors[rows], axis=1, keepdims=True).clip(1e-12)
    distances = KMeans(count, n_init=1, random_state=0).fit_transform(units)
    return rows[list(dict.fromkeys(distances.argmin(axis=0).tolist()))].tolist()


def _nearest(texts: Sequence[str], vectors: Vectors, rows: Sequence[int], nearest: int) -> Iterator[tuple[str, ...]]:
    """For every row the texts of highest cosine, the nearest first, each once and none equal to its own."""
    corpus = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    for row, cosines in zip(rows, cosine_similarity_matrix(corpus[list(rows)], corpus).numpy(), strict=True):
        order = (texts[place] for place in np.argsort(-cosines, kind="stable") if texts[place] != texts[row])
        yield tuple(islice(dict.fromkeys(order), nearest))
