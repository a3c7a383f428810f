from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from sentrep.functional import spearman


def test_equals_scipy_with_ties() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 200), rng.random(200)
    assert spearman(x, y) == pytest.approx(100 * scipy.stats.spearmanr(x, y).statistic)


def test_two_pairs_are_enough() -> None:
    assert spearman([0.1, 0.2], [2, 1]) == pytest.approx(-100)
    assert spearman([0.1, 0.2], [False, True]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("predicted", "gold", "message"),
    [
        ([0.1, float("nan"), 0.2], [1, 2, 3], "NaN"),
        ([0.1, 0.2, 0.3], [1, float("inf"), 3], "infinite"),
        ([0.5, 0.5, 0.5], [1, 2, 3], "no rank correlation"),
        ([0.1, 0.2], [1, 2, 3], "one length"),
        ([0.1], [1], "at least 2"),
    ],
)
def test_refuses_what_has_no_correlation(predicted: list[float], gold: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spearman(predicted, gold)
