"""The share of drawn negatives in the softmax against loops: blocks of rows, weights, a margin."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from references.samplers import dose
from sentrep.functional.similarity import drawn_shares, info_nce


def _tensors() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, negatives of all and of each, and weights of all pairs, one of them 0."""
    generator = torch.Generator().manual_seed(1)
    queries, keys = torch.randn(2, 6, 4, generator=generator, dtype=torch.double).unbind()
    negatives = torch.randn(3, 4, generator=generator, dtype=torch.double)
    by_row = torch.randn(6, 2, 4, generator=generator, dtype=torch.double)
    weights = torch.rand(6, 6 + 3 + 2, generator=generator, dtype=torch.double)
    weights[2, 7] = 0
    return queries, keys, negatives, by_row, weights


@pytest.mark.parametrize("rows", [2, 128])
@pytest.mark.parametrize("multiplied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_equal_the_loop(rows: int, multiplied: bool, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentrep.functional.similarity.rows_at_once", lambda width: rows)
    queries, keys, negatives, by_row, weights = _tensors()
    positives = [1, 0, 2, 5, 4, 3]
    given = weights if weighted else None
    found = drawn_shares(
        queries, keys, temperature=0.3, positives=torch.tensor(positives), negatives=negatives, row_negatives=by_row,
        weights=given, multiplied=multiplied,
    )  # fmt: skip
    each = [*(negative[None] for negative in negatives), *(by_row[:, k : k + 1] for k in range(2))]
    expected = dose(queries, keys, positives, each, 0.3, given, multiplied)
    assert found.tolist() == pytest.approx(expected, rel=1e-9)


def test_shares_are_the_gradient_of_the_loss_with_respect_to_the_logits() -> None:
    """Of the loss with a margin: the weights w of one draw are varied, and ∂ℓ/∂log w is the draw's share."""
    queries, keys, negatives, by_row, weights = _tensors()
    weights[2, 7] = 0.5
    positives = torch.arange(6)
    how = {"temperature": 0.3, "positives": positives, "negatives": negatives, "row_negatives": by_row, "margin": 10.0}

    def loss(change: float) -> float:
        changed = weights.clone()
        changed[:, 8] *= math.exp(change)
        return info_nce(queries, keys, weights=changed, **how).item()  # type: ignore[arg-type]

    found = drawn_shares(queries, keys, weights=weights, **how)  # type: ignore[arg-type]
    assert found[2].item() == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-6)
