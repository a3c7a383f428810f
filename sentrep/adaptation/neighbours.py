"""The nearest texts of a few examples, before and after training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from sentrep.functional.similarity import cosine_similarity_matrix
from sentrep.reports.document import Change

Vectors = NDArray[np.floating]
_SAMPLE = 5000
"""The groups are found among so many texts."""


def changed_neighbours(
    texts: Sequence[str], before: Vectors, after: Vectors, count: int = 10, nearest: int = 3
) -> tuple[Change, ...]:
    """The nearest other texts of a few texts from all parts of the corpus; the most changed neighbours come first.

    The texts are those nearest to the centres of k-means in the space before, so that each stands for a part of the
    corpus. The choice is the same every time.

    Args:
        texts: N.
        before: (N, D) vectors of the model before.
        after: (N, D') of the same texts by the model after.
        count: the number of texts; fewer if the corpus has fewer different texts.
        nearest: neighbours of each by cosine, without equal texts.
    """
    rows = _spread(texts, before, count)
    sides = (_nearest(texts, vectors, rows, nearest) for vectors in (before, after))
    found = [Change(texts[row], *both) for row, *both in zip(rows, *sides, strict=True)]
    return tuple(sorted(found, key=lambda one: len(set(one.before) & set(one.after))))


def _spread(texts: Sequence[str], vectors: Vectors, count: int) -> list[int]:
    """Rows of different texts, each the nearest to the centre of a group."""
    from sklearn.cluster import KMeans

    rows = np.array(sorted({text: row for row, text in enumerate(texts)}.values()), dtype=np.int64)
    rows = rows[:: max(1, len(rows) // _SAMPLE)]
    if len(rows) <= count:
        return rows.tolist()
    units = vectors[rows] / np.linalg.norm(vectors[rows], axis=1, keepdims=True).clip(1e-12)
    distances = KMeans(count, n_init=1, random_state=0).fit_transform(units)
    return rows[list(dict.fromkeys(distances.argmin(axis=0).tolist()))].tolist()


def _nearest(texts: Sequence[str], vectors: Vectors, rows: Sequence[int], nearest: int) -> Iterator[tuple[str, ...]]:
    """For every row the different texts of highest cosine, the nearest first, without its own text."""
    corpus = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
    for row, cosines in zip(rows, cosine_similarity_matrix(corpus[list(rows)], corpus).numpy(), strict=True):
        order = (texts[place] for place in np.argsort(-cosines, kind="stable") if texts[place] != texts[row])
        yield tuple(islice(dict.fromkeys(order), nearest))
