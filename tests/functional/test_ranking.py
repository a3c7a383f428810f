"""Ranking metrics against loops from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from references import ranking as reference
from sentrep.functional.ranking import average_precision, ndcg, recall, reciprocal_rank


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("k", [1, 3, 10, 1000])
def test_metrics_equal_the_loops(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [f"d{number}" for number in range(rng.integers(2, 40))]
    judged = rng.choice(documents, rng.integers(1, len(documents)), replace=False).tolist()
    grades = {document: int(rng.integers(-1, 4)) for document in judged} | {judged[0]: 2, "not in the corpus": 1}
    order = rng.permutation(documents).tolist()
    ranked, relevant = [grades.get(document, 0) for document in order], sum(g > 0 for g in grades.values())

    assert ndcg(ranked, list(grades.values()), k) == pytest.approx(reference.ndcg(order, grades, k), abs=1e-12)
    expected = reference.average_precision(order, grades, k)
    assert average_precision(ranked, relevant, k) == pytest.approx(expected, abs=1e-12)
    assert reciprocal_rank(ranked, k) == reference.reciprocal_rank(order, grades, k)
    assert recall(ranked, relevant, k) == reference.recall(order, grades, k)


def test_a_perfect_ranking_scores_1() -> None:
    assert (ndcg([3, 2, 0], [2, 3], 10), average_precision([3, 2, 0], 2, 10)) == (1.0, 1.0)
