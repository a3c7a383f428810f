"""Exact nearest-neighbour search over any number of documents in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sentrep.functional.similarity import unit

_QUERIES = 1024
"""Queries scored at a time: bounds the similarity matrix of a block to this many rows."""
_LOW_BITS = 32


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
        self.queries = unit(self.queries)
        self._keys = torch.empty(len(self.queries), 0, dtype=torch.int64, device=self.queries.device)

    def add(self, documents: Tensor, order: Tensor) -> None:
        """Search a block.

        Args:
            documents: (B, D) vectors, finite.
            order: (B,) int64 in [0, 2³²), distinct over all blocks; of equal cosines the smaller number wins.
        """
        device = self.queries.device
        documents, low = unit(documents.to(device)), (2**_LOW_BITS - 1) - order.to(device)
        kept = []
        with torch.autocast(device.type, enabled=False):
            for queries, best in zip(self.queries.split(_QUERIES), self._keys.split(_QUERIES), strict=True):
                keys = torch.cat([best, (_sortable(queries @ documents.T) << _LOW_BITS) + low], dim=1)
                kept.append(keys.topk(min(self.k, keys.shape[1]), dim=1).values)
        self._keys = torch.cat(kept)

    @property
    def order(self) -> Tensor:
        """(Q, min(k, documents seen)) numbers of the best documents, best first, on the CPU."""
        return (2**_LOW_BITS - 1) - (self._keys & (2**_LOW_BITS - 1)).cpu()


def _sortable(similarity: Tensor) -> Tensor:
    """int64 numbers in the range of int32 that are ordered like these float32 numbers."""
    bits = (similarity + 0.0).contiguous().view(torch.int32)  # + 0.0: −0 and 0 are equal
    # among negative floats the larger bit pattern is the smaller number: turn all bits but the sign
    return torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).long()
