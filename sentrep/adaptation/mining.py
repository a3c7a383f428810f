"""Hard negatives: near passages of other documents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sentrep.functional.similarity import cosine_similarity_matrix

_NEAREST = 20
"""A negative is drawn from so many passages; the nearest one would often be a good answer."""
_MARGIN = 0.95
"""Share of the right passage's cosine from which another one counts as an answer too, and is no negative (Moreira et
al. 2024, NV-Retriever, section 3: TopK-PercPos)."""
_OFTEN = 5
"""A passage may be drawn so many times as often as the average: a few near to everything would teach little."""
_BLOCK = 1024


def mine_hard_negatives(
    queries: Tensor, passages: Tensor, right: Sequence[int], documents: Sequence[int], seed: int = 0
) -> list[int]:
    """For each query, one of the nearest passages of other documents; a random one of these if all are too near.

    The mean of the passages is subtracted first: without this, every cosine of a model that was never trained
    for similarity is near 1, and every passage seems as good an answer as the right one.

    Args:
        queries: (Q, D) vectors.
        passages: (P, D) vectors.
        right: Q numbers of the right passages.
        documents: P numbers of the passages' documents, at least two different ones.
        seed: of the draws.

    Returns:
        Q numbers of passages.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 3]))
    owner, answers = torch.tensor(documents), torch.tensor(right)
    common = passages.mean(0)
    queries, passages = queries - common, passages - common
    most = -(-_OFTEN * len(queries) // len(passages))
    times = np.zeros(len(passages), np.int64)
    count = min(_NEAREST, len(documents) - 1)
    chosen: list[int] = []
    for vectors, found in zip(queries.split(_BLOCK), answers.split(_BLOCK), strict=True):
        cosine = cosine_similarity_matrix(vectors, passages).cpu()
        limit = cosine.gather(1, found[:, None])
        limit = limit - (1 - _MARGIN) * limit.abs()
        own = owner[None] == owner[found][:, None]
        best = cosine.masked_fill(own | (cosine > limit), -2.0).topk(count, dim=1)
        for values, numbers, other in zip(best.values, best.indices, ~own, strict=True):
            near = numbers[values > -2.0].numpy()
            near = near[times[near] < most]
            near = near if len(near) else other.nonzero()[:, 0].numpy()
            chosen.append(int(rng.choice(near)))
            times[chosen[-1]] += 1
    return chosen
