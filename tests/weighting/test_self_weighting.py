from __future__ import annotations

import pytest
import torch

from references.dclr import weighted_loss
from sentrep import Views
from sentrep.objectives import Contrastive
from sentrep.weighting import SelfWeighting
from weighting.test_complementary import Fixed, median_off_diagonal, views


@pytest.mark.parametrize("mask_noise", [True, False])
def test_the_model_judges_itself_with_the_cosines_of_the_loss(mask_noise: bool) -> None:
    fast, slow = views(), views()
    threshold = median_off_diagonal(slow.anchor.detach(), slow.positive.detach())
    noise = torch.cat([torch.randn(4, 32), slow.anchor[:2].detach()])
    objective = Contrastive(
        temperature=0.5,
        negatives={"noise": Fixed(noise.tolist())},
        weighting=SelfWeighting(threshold, mask_noise=mask_noise),
    )
    loss = objective(fast, batch=None)  # type: ignore[arg-type]
    expected = weighted_loss(
        slow.anchor, slow.positive, noise, slow.anchor.detach(), slow.positive.detach(), threshold, 0.5, mask_noise
    )
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(fast.anchor.grad, slow.anchor.grad, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(fast.positive.grad, slow.positive.grad, rtol=1e-5, atol=1e-6)


def test_a_batch_whose_negatives_are_all_masked_has_loss_zero() -> None:
    x = torch.ones(4, 8, requires_grad=True)
    loss = Contrastive(weighting=SelfWeighting(0.5))(Views(x, x, None, None, None), batch=None)  # type: ignore[arg-type]
    loss.backward()
    assert loss.item() == 0.0
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
