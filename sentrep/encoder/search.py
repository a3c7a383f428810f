"""Nearest neighbours by cosine: exact, a block of the corpus at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sentrep import checks
from sentrep.errors import InputError
from sentrep.functional.similarity import cosine_similarity_matrix

Vectors = np.ndarray | Tensor
BLOCK = 8192
"""Documents in memory at a time; enough that sorting them by length leaves little padding."""
_QUERIES = 1024
"""Queries scored at a time: bounds the similarity matrix of a block to this many rows."""


class Neighbours(NamedTuple):
    """The k nearest of a corpus to each of Q queries, nearest first; without the dimension Q for a single query."""

    indices: np.ndarray
    """(Q, k) int64, positions in the corpus."""
    scores: np.ndarray
    """(Q, k) float32, cosines."""


@dataclass
class TopK:
    """The k documents with the highest cosine to each of Q queries, from blocks of documents.

    Documents of equal cosine are ordered by the caller's numbers, so that the result does not depend on the
    device's sorting, and depends on the blocks only by the rounding of a matrix product.

    Args:
        queries: (Q, D).
        k: how many to keep, at least 1.

    Attributes:
        similarity: (Q, min(k, documents seen)) float32 cosines of the best documents, best first.
        order: (Q, min(k, documents seen)) int64, their numbers.
    """

    queries: Tensor
    k: int

    def __post_init__(self) -> None:
        self.similarity = torch.empty(len(self.queries), 0, device=self.queries.device)
        self.order = torch.empty(len(self.queries), 0, dtype=torch.int64, device=self.queries.device)

    def add(self, documents: Tensor, order: Tensor) -> None:
        """Search a block.

        Args:
            documents: (B, D) vectors, finite.
            order: (B,) int64, distinct over all blocks; of equal cosines the smaller number wins.
        """
        numbers, places = order.to(self.queries.device).sort()
        documents = documents.to(self.queries.device)[places]
        kept = []
        former = zip(*(part.split(_QUERIES) for part in (self.queries, self.similarity, self.order)), strict=True)
        for queries, similarity, order in former:
            cosine = cosine_similarity_matrix(queries, documents)
            found = _columns_of_highest(cosine, self.k)
            order, by_number = torch.cat([order, numbers[found]], dim=1).sort(dim=1)
            similarity = torch.cat([similarity, cosine.gather(1, found)], dim=1).gather(1, by_number)
            similarity, best = similarity.sort(dim=1, descending=True, stable=True)
            kept.append((similarity[:, : self.k], order.gather(1, best)[:, : self.k]))
        self.similarity, self.order = (torch.cat(parts) for parts in zip(*kept, strict=True))


def _columns_of_highest(similarity: Tensor, k: int) -> Tensor:
    """(Q, min(k, B)) columns of the k highest of each row of (Q, B), in any order; of equal ones the first."""
    if k >= similarity.shape[1]:
        return torch.arange(similarity.shape[1], device=similarity.device).expand(similarity.shape)
    values, columns = similarity.topk(k + 1)
    tied = values[:, -2] == values[:, -1]  # which of them topk takes is left open
    columns[tied] = similarity[tied].sort(dim=1, descending=True, stable=True).indices[:, : k + 1]
    return columns[:, :-1]


def search(
    encode_queries: Callable[[Any], Tensor],
    encode_documents: Callable[[Any], Tensor],
    device: torch.device,
    queries: str | Sequence[str] | Vectors,
    corpus: Sequence[str] | Vectors,
    k: int,
) -> Neighbours:
    """See `TextEncoder.search`; the first two arguments turn texts into vectors (n, D) on the third."""
    checks.whole("search", 1, k=k)
    one = isinstance(queries, str) or (isinstance(queries, (np.ndarray, Tensor)) and queries.ndim == 1)
    asked: Any = queries
    if one:
        asked = [queries] if isinstance(queries, str) else asked[None]
    if isinstance(corpus, str) or not len(corpus):
        raise InputError("search: the corpus is empty or one text; give a list of texts, or vectors (N, D)")
    best = TopK(next(_vectors(asked, encode_queries, "queries", len(asked) or 1)).to(device), k)
    for number, block in enumerate(_vectors(corpus, encode_documents, "the corpus", BLOCK)):
        if best.queries.shape[1] != block.shape[1]:
            widths = f"{best.queries.shape[1]} and {block.shape[1]}"
            raise InputError(f"search: queries and corpus have {widths} dimensions; encode both by one model")
        best.add(block, torch.arange(len(block)) + number * BLOCK)
    found = Neighbours(best.order.cpu().numpy(), best.similarity.cpu().numpy())
    return Neighbours(found.indices[0], found.scores[0]) if one else found


def _vectors(given: Any, encode: Callable[[Any], Tensor], what: str, at_once: int) -> Iterator[Tensor]:
    """(B, D) float32, finite, of texts or vectors, so many at a time."""
    texts = not isinstance(given, (np.ndarray, Tensor))
    if not len(given):
        raise InputError(f"search: {what}: nothing given; give texts, or vectors (n, D)")
    if not texts and given.ndim != 2:
        raise InputError(f"search: {what} of shape {tuple(given.shape)}; expected vectors (n, D), or a list of texts")
    for start in range(0, len(given), at_once):
        part = given[start : start + at_once]
        vectors = encode(list(part)) if texts else torch.as_tensor(part).float()
        if not vectors.isfinite().all():
            raise InputError(
                f"search: {what}: a vector from row {start} on is not finite; look at the encoder's weights"
            )
        yield vectors
