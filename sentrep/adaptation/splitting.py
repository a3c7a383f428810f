"""The documents that are held out, to choose by and to judge by; training sees no copy of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sentrep.data.sets.proxy_tasks import is_judgeable
from sentrep.data.text.documents import Document

_SHARE, _LEAST, _MOST = 0.2, 200, 1000
"""The share of documents that is held out, and the least (but never more than half) and greatest number."""
_CHOOSE = 0.4
"""Share of the held-out documents that chooses; the others judge."""
_STRUCTURED = 1 / 3
"""A text is judged if at least this share of its documents has a structure; fewer documents would not decide it."""
_FEWEST = 50
"""Documents to judge by, at least."""
_NEAR = 0.9
"""Cosine of TF-IDF vectors from which two documents count as copies of each other."""


@dataclass(frozen=True)
class Split:
    """Numbers of documents."""

    train: list[int]
    choose: list[int]
    """Held out, for the choices of checkpoint and mixture."""
    judge: list[int]
    """Held out, for the verdict alone."""
    copies: int
    """Number of documents that were not held out, because another document is nearly the same."""


def split_documents(documents: Sequence[Document], seed: int = 0) -> Split | None:
    """Hold out documents that have a structure and no near copy; None if too few documents do.

    Args:
        documents: all of them.
        seed: of the draw.
    """
    structured = np.array([number for number, document in enumerate(documents) if is_judgeable(document)])
    count = min(_MOST, max(int(_SHARE * len(documents)), min(_LEAST, len(documents) // 2)))
    if len(structured) < _STRUCTURED * len(documents):
        return None
    drawn = np.random.default_rng(np.random.SeedSequence([seed, 0])).permutation(structured)[: 2 * count]
    copied = has_copy(documents, drawn) if len(drawn) else np.zeros(0, bool)
    held = drawn[~copied][:count].tolist()
    choose, judge = held[: int(_CHOOSE * len(held))], held[int(_CHOOSE * len(held)) :]
    if len(judge) < _FEWEST:
        return None
    out = set(held)
    return Split([n for n in range(len(documents)) if n not in out], choose, judge, int(copied.sum()))


def has_copy(documents: Sequence[Document], asked: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(n,) whether another document is nearly the same as each of n, by its words (TF-IDF).

    If no word distinguishes two documents, because there are none or the same few in all, each is a copy.

    Args:
        documents: all of them.
        asked: numbers of n documents.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    # words of more than a third of the documents take most of the time and distinguish little
    vectorizer = TfidfVectorizer(max_df=max(1 / 3, 2 / len(documents)), token_pattern=r"\w+")
    try:
        vectors = vectorizer.fit_transform(f"{document.title or ''} {document.text}" for document in documents)
    except ValueError:  # no word is left
        return np.ones(len(asked), bool)
    near = [
        np.asarray(((vectors[rows] @ vectors.T) >= _NEAR).sum(axis=1)).ravel() > 1
        for rows in np.array_split(asked, max(1, len(asked) // 64))
    ]
    return np.concatenate(near)
