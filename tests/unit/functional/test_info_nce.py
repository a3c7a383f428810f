"""InfoNCE against loops written from the papers, in value and gradient, at once and in blocks of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from references.info_nce import info_nce_loop
from sentrep.functional import info_nce


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 6),
    extra_keys=st.integers(0, 4),
    m=st.integers(0, 5),
    own=st.integers(0, 3),
    temperature=st.sampled_from([0.05, 0.3, 1.0]),
    negative_weight=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    label_smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    weighted=st.booleans(),
    block=st.sampled_from([0, 1, 4, 100]),
    seed=st.integers(0, 2**16),
)
def test_equals_the_loop_in_value_and_gradient(
    n: int, extra_keys: int, m: int, own: int, temperature: float, weighted: bool, block: int, seed: int, **options: Any
) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(n, 7), (n + extra_keys, 7), (m, 7), (n, own, 7)]
    leaves = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    positives = torch.randperm(n + extra_keys, generator=generator)[:n]
    weights = 2 * torch.rand(n, n + extra_keys + m + own, generator=generator, dtype=torch.float64)
    options["weights"] = weights.masked_fill(weights < 0.5, 0.0) if weighted else None
    queries, keys, negatives, row_negatives = leaves
    drawn = {"negatives": negatives if m else None, "row_negatives": row_negatives if own else None}
    how = {"temperature": temperature, "positives": positives, "block": block}
    loss = info_nce(queries, keys, **how, **drawn, **options)  # type: ignore[arg-type]
    drawn = {"negatives": negatives, "row_negatives": row_negatives}
    expected = info_nce_loop(queries, keys, temperature, positives.tolist(), **drawn, **options)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad(3 * x, leaves, materialize_grads=True) for x in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)


def test_a_weight_on_the_positive_is_ignored() -> None:
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    weights = torch.ones(4, 4) - torch.eye(4)
    torch.testing.assert_close(info_nce(x, y, temperature=0.1, weights=weights), info_nce(x, y, temperature=0.1))


def test_refuses_a_temperature_that_is_not_positive() -> None:
    with pytest.raises(ValueError, match="temperature"):
        info_nce(torch.randn(2, 3), torch.randn(2, 3), temperature=0.0)


@pytest.mark.parametrize("margin", [0.0, 90.0])
def test_a_margin_may_be_a_right_angle(margin: float) -> None:
    """cos(θ + 90°) = −sin θ."""
    x = torch.eye(3)
    y = torch.stack([x[0] + x[1], x[1] + x[2], x[2] + x[0]]) if margin else x
    positive = -(0.5**0.5) if margin else 1.0
    logits = torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)
    expected = torch.nn.functional.cross_entropy(logits.fill_diagonal_(positive), torch.arange(3))
    torch.testing.assert_close(info_nce(x, y, temperature=1.0, margin=margin), expected)
