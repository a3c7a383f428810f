"""Nearest neighbours by cosine: exact and in blocks, or through an index of faiss or usearch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sentrep import checks
from sentrep.encoder.encode import as_list
from sentrep.errors import InputError
from sentrep.functional.similarity import cosine_similarity_matrix, unit

Index = Literal["exact", "faiss", "usearch"]
Vectors = np.ndarray | Tensor
BLOCK = 8192
"""Documents in memory at a time; enough that sorting them by length leaves little padding."""
_QUERIES = 1024
"""Queries scored at a time: bounds the similarity matrix of a block to this many rows."""
_LOW = 2**32 - 1


class Neighbours(NamedTuple):
    """The k nearest of a corpus to each of Q queries, nearest first; without the dimension Q for a single query."""

    indices: np.ndarray
    """(Q, k) int64, positions in the corpus."""
    scores: np.ndarray
    """(Q, k) float32, cosines."""


@dataclass
class TopK:
    """For each of Q queries the k documents of highest cosine seen so far, of documents that come block by block.

    Documents of equal cosine are ordered by a number that the caller gives, so that the result does not depend on the
    device's sorting, nor on the blocks beyond the rounding of a matrix product. Similarity and number are packed into
    one 64-bit key: keys are distinct, and the k largest of them are the answer.

    Args:
        queries: (Q, D).
        k: how many to keep, at least 1.
    """

    queries: Tensor
    k: int

    def __post_init__(self) -> None:
        self._keys = torch.empty(len(self.queries), 0, dtype=torch.int64, device=self.queries.device)

    def add(self, documents: Tensor, order: Tensor) -> None:
        """Search a block.

        Args:
            documents: (B, D) vectors, finite.
            order: (B,) int64 in [0, 2³²), distinct over all blocks; of equal cosines the smaller number wins.
        """
        documents, low = documents.to(self.queries.device), _LOW - order.to(self.queries.device)
        kept = []
        for queries, best in zip(self.queries.split(_QUERIES), self._keys.split(_QUERIES), strict=True):
            similarity = _sortable(cosine_similarity_matrix(queries, documents))
            keys = torch.cat([best, (similarity << 32) + low], dim=1)
            kept.append(keys.topk(min(self.k, keys.shape[1]), dim=1).values)
        self._keys = torch.cat(kept)

    @property
    def similarity(self) -> Tensor:
        """(Q, min(k, documents seen)) float32 cosines of the best documents, best first, on the CPU."""
        return _unsortable(self._keys.cpu() >> 32)

    @property
    def order(self) -> Tensor:
        """(Q, min(k, documents seen)) numbers of the best documents, best first, on the CPU."""
        return _LOW - (self._keys & _LOW).cpu()


def _sortable(similarity: Tensor) -> Tensor:
    """int64 numbers in the range of int32 that are ordered like these float32 numbers."""
    bits = (similarity + 0.0).contiguous().view(torch.int32)  # + 0.0: −0 and 0 are equal
    # among negative floats the larger bit pattern is the smaller number: turn all bits but the sign
    return torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).long()


def _unsortable(numbers: Tensor) -> Tensor:
    """The float32 numbers that `_sortable` was given."""
    bits = numbers.to(torch.int32)
    return torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).view(torch.float32)


def prompted(sentences: object, prompts: Mapping[str, str], names: Sequence[str]) -> str | list[str]:
    """Sentences behind the first of these prompts that there is."""
    prompt = next((prompts[name] for name in names if prompts.get(name)), "")
    texts = as_list(sentences)
    behind = [prompt + text for text in texts] if prompt and all(isinstance(text, str) for text in texts) else texts
    return behind[0] if isinstance(sentences, str) else behind


def search(
    encode_queries: Callable[[Any], Tensor],
    encode_documents: Callable[[Any], Tensor],
    device: torch.device,
    queries: str | Sequence[str] | Vectors,
    corpus: Sequence[str] | Vectors,
    k: int,
    index: Index,
) -> Neighbours:
    """See `sentrep.SentenceEncoder.search`; the first two arguments turn texts into vectors (n, D) on the third."""
    checks.whole("search", 1, k=k)
    checks.one_of("search", ("exact", *_INDEXES), index=index)
    one = isinstance(queries, str) or (isinstance(queries, (np.ndarray, Tensor)) and queries.ndim == 1)
    asked: Any = queries
    if one:
        asked = [queries] if isinstance(queries, str) else asked[None]
    if isinstance(corpus, str) or not len(corpus):
        raise InputError("search: the corpus is empty or one text; give a list of texts, or vectors (N, D)")
    wanted = next(_vectors(asked, encode_queries, "queries", len(asked) or 1)).to(device)
    documents = _vectors(corpus, encode_documents, "the corpus", BLOCK)
    found = _exact(wanted, documents, k) if index == "exact" else _INDEXES[index](wanted, documents, k)
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


def _exact(queries: Tensor, documents: Iterable[Tensor], k: int) -> Neighbours:
    best, start = TopK(queries, k), 0
    for block in documents:
        _check_width(queries, block)
        best.add(block, torch.arange(start, start + len(block)))
        start += len(block)
    return Neighbours(best.order.numpy(), best.similarity.numpy())


def _check_width(queries: Tensor, documents: Tensor) -> None:
    if queries.shape[1] != documents.shape[1]:
        widths = f"{queries.shape[1]} and {documents.shape[1]}"
        raise InputError(f"search: queries and corpus have {widths} dimensions; encode both by one model")


def _all(queries: Tensor, documents: Iterable[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of either, as the indexes want them."""
    corpus = torch.cat([block.cpu() for block in documents])
    _check_width(queries, corpus)
    return unit(queries).cpu().numpy(), unit(corpus).numpy()


def _faiss(queries: Tensor, documents: Iterable[Tensor], k: int) -> Neighbours:
    """A flat index: exact, by faiss's own kernels."""
    faiss = _package("faiss", "faiss-cpu")
    wanted, corpus = _all(queries, documents)
    index = faiss.IndexFlatIP(corpus.shape[1])
    index.add(corpus)
    scores, indices = index.search(wanted, min(k, len(corpus)))
    return Neighbours(indices, scores)


def _usearch(queries: Tensor, documents: Iterable[Tensor], k: int) -> Neighbours:
    """A graph (HNSW): approximate, so a near neighbour may be missing."""
    usearch = _package("usearch.index", "usearch")
    wanted, corpus = _all(queries, documents)
    index = usearch.Index(ndim=corpus.shape[1], metric="cos", dtype="f32")  # left open, it rounds to bfloat16
    index.add(np.arange(len(corpus)), corpus)
    found = index.search(wanted, min(k, len(corpus)))
    keys, distances = np.atleast_2d(found.keys, found.distances)  # of one query they come without that dimension
    count = int(np.min(getattr(found, "counts", keys.shape[1])))  # a graph may find fewer
    return Neighbours(keys[:, :count].astype(np.int64), 1 - distances[:, :count])


def _package(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"search: index {module.split('.')[0]!r} needs a package: pip install {name}") from None


_INDEXES: dict[str, Callable[[Tensor, Iterable[Tensor], int], Neighbours]] = {"faiss": _faiss, "usearch": _usearch}
