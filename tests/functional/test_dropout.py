"""Fast dropout: the same distribution and gradient as torch's."""

from __future__ import annotations

import pytest
import torch

from sentrep.functional import dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.825])
def test_rate_scale_and_independence(p: float) -> None:
    torch.manual_seed(0)
    mask = dropout.keep_mask(torch.empty(1000, 1003), p)  # an odd width: not a multiple of four
    assert (mask == 0).float().mean().item() == pytest.approx(p, abs=2e-3)
    assert mask.mean().item() == pytest.approx(1.0, abs=5e-3)
    assert mask.unique().numel() == 2
    kept = (mask > 0).float() - (1 - p)
    for shift in (1, 2, 3, 4):  # neighbours share a random number
        covariance = (kept[:, shift:] * kept[:, :-shift]).mean().item()
        assert abs(covariance) < 2e-3 * p * (1 - p) * 4


def test_value_and_gradient_belong_to_one_mask() -> None:
    x = torch.randn(50, 7, requires_grad=True)
    torch.manual_seed(3)
    mask = dropout.keep_mask(x, 0.3)
    torch.manual_seed(3)
    y = dropout.dropout(x, 0.3)
    torch.testing.assert_close(y, x * mask)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    torch.testing.assert_close(gradient, 2 * x * mask * mask)
