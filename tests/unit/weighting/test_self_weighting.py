from __future__ import annotations

import pytest
import torch

from references.dclr import weighted_loss
from sentrep.objectives import Contrastive
from sentrep.weighting import SelfWeighting
from support import assert_same_gradients, bare_views
from unit.weighting.test_complementary import Fixed, median_off_diagonal, views


@pytest.mark.parametrize("mask_noise", [True, False])
def test_the_model_judges_itself_with_the_cosines_of_the_loss(mask_noise: bool) -> None:
    x = views()
    judged = x.anchor.detach(), x.positive.detach()
    threshold = median_off_diagonal(*judged)
    noise = torch.cat([torch.randn(4, 32), judged[0][:2]])
    objective = Contrastive(
        temperature=0.5,
        negatives={"noise": Fixed(noise.tolist())},
        weighting=SelfWeighting(threshold, mask_noise=mask_noise),
    )
    loss = objective(x, batch=None)  # type: ignore[arg-type]
    expected = weighted_loss(x.anchor, x.positive, noise, *judged, threshold, 0.5, mask_noise)
    assert_same_gradients(loss, expected, [x.anchor, x.positive], rtol=1e-6, atol=1e-6)


def test_a_batch_whose_negatives_are_all_masked_has_loss_zero() -> None:
    x = torch.ones(4, 8, requires_grad=True)
    loss = Contrastive(weighting=SelfWeighting(0.5))(bare_views(x, x), batch=None)  # type: ignore[arg-type]
    loss.backward()
    assert loss.item() == 0.0
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
