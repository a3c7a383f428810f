"""How good a ranking is: nDCG, average precision, reciprocal rank, recall.

A ranking is given as the grade of the document at each rank, best rank first: above 0 is relevant, 0 is not relevant or
not judged. All scores lie in [0, 1] and follow trec_eval, whose results BEIR and MTEB report.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def ndcg(ranked: Sequence[float], judged: Sequence[float], k: int) -> float:
    """Normalised discounted cumulative gain at k, with the grade itself as the gain.

        nDCG@k = DCG(ranked) / DCG(judged, best first),   DCG(g) = Σ_{r=1..k} max(g_r, 0) / log₂(r + 1)

    Args:
        ranked: grades in the order of the ranking.
        judged: grades of every judged document of the query, in any order; at least one above 0.
        k: how many ranks count.

    Examples:
        >>> round(ndcg([1.0, 0.0, 2.0], judged=[2.0, 1.0], k=10), 4)  # (1 + 2 / 2) / (2 + 1 / log₂ 3)
        0.7602
    """
    return _dcg(ranked, k) / _dcg(sorted(judged, reverse=True), k)


def average_precision(ranked: Sequence[float], relevant: int, k: int) -> float:
    """Mean over the relevant documents of the precision at their rank; one that is not among the first k adds 0.

    Args:
        ranked: grades in the order of the ranking.
        relevant: number of relevant documents of the query, found or not, at least 1.
        k: how many ranks count.

    Examples:
        >>> average_precision([1, 0, 1], relevant=4, k=10) == (1 / 1 + 2 / 3) / 4
        True
    """
    hits = _hits(ranked, k)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / relevant)


def reciprocal_rank(ranked: Sequence[float], k: int) -> float:
    """1 / rank of the first relevant document, 0 where none is among the first k.

    Examples:
        >>> reciprocal_rank([0, 0, 1], k=10) == 1 / 3, reciprocal_rank([0, 0, 1], k=2) == 0
        (True, True)
    """
    ranks = np.flatnonzero(_hits(ranked, k))
    return 1.0 / (int(ranks[0]) + 1) if len(ranks) else 0.0


def recall(ranked: Sequence[float], relevant: int, k: int) -> float:
    """Share of the relevant documents that are among the first k; arguments as for `average_precision`.

    Examples:
        >>> recall([1, 0, 1], relevant=4, k=2)
        0.25
    """
    return float(_hits(ranked, k).sum() / relevant)


def _hits(ranked: Sequence[float], k: int) -> NDArray[np.bool_]:
    return np.asarray(ranked[:k], dtype=np.float64) > 0


def _dcg(grades: Sequence[float], k: int) -> float:
    gains = np.maximum(np.asarray(grades[:k], dtype=np.float64), 0.0)
    return float((gains / np.log2(np.arange(2, len(gains) + 2))).sum())
