from __future__ import annotations

import pytest
import torch

from references.info_nce import info_nce_loop
from references.soft_negatives import bidirectional_margin_loop
from sentrep import InputError
from sentrep.objectives import BidirectionalMargin, Contrastive
from support import assert_same_gradients, bare_views
from unit.objectives.test_readings import NOTHING, vectors


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.3), (0.0, 0.0), (0.5, 1.5)])
def test_value_and_gradient_are_those_of_the_loop(alpha: float, beta: float) -> None:
    anchor, positive, soft, _ = vectors(40)
    objective = BidirectionalMargin(alpha, beta)
    loss = objective(bare_views(anchor, positive, soft), NOTHING)
    expected = bidirectional_margin_loop(anchor, positive, soft, alpha, beta)
    assert_same_gradients(loss, expected, [anchor, positive, soft], rtol=1e-7, atol=1e-7)
    near, far = torch.cosine_similarity(anchor, positive), torch.cosine_similarity(anchor, soft)
    torch.testing.assert_close(objective.metrics["difference"], (far - near).mean())


def test_the_contrast_leaves_soft_negatives_alone() -> None:
    anchor, positive, soft, _ = vectors()
    views = bare_views(anchor, positive, soft)
    loss = Contrastive(hard_negative_weight=None)(views, NOTHING)
    torch.testing.assert_close(loss, info_nce_loop(anchor, positive, 0.05, list(range(5)), None, None, 1.0, 0.0))
    assert loss != Contrastive()(views, NOTHING)


def test_a_corpus_without_soft_negatives_is_refused() -> None:
    with pytest.raises(InputError, match=r"third column in data\.columns"):
        BidirectionalMargin()(bare_views(*vectors()[:2]), NOTHING)
