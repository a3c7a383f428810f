from __future__ import annotations

import pytest
import torch
from torch import Tensor

from references.info_nce import info_nce_loop
from references.soft_negatives import bidirectional_margin_loop
from sentrep import InputError, Views
from sentrep.objectives import BidirectionalMargin, Contrastive
from support import assert_same_gradients


def views(*vectors: Tensor) -> Views:
    anchor, positive, *negative = vectors
    return Views(anchor, positive, negative[0] if negative else None, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.3), (0.0, 0.0), (0.5, 1.5)])
def test_value_and_gradient_are_those_of_the_loop(alpha: float, beta: float) -> None:
    vectors = torch.randn(3, 40, 6, dtype=torch.float64, requires_grad=True)
    objective = BidirectionalMargin(alpha, beta)
    loss = objective(views(*vectors), batch=None)  # type: ignore[arg-type]
    expected = bidirectional_margin_loop(*vectors, alpha, beta)
    assert_same_gradients(loss, expected, vectors, rtol=1e-7, atol=1e-7)
    cosines = torch.cosine_similarity(vectors[:1], vectors[1:], dim=-1)
    torch.testing.assert_close(objective.metrics["difference"], (cosines[1] - cosines[0]).mean())


def test_the_contrast_leaves_soft_negatives_alone() -> None:
    vectors = torch.randn(3, 5, 6, dtype=torch.float64)
    loss = Contrastive(hard_negative_weight=None)(views(*vectors), batch=None)  # type: ignore[arg-type]
    expected = info_nce_loop(vectors[0], vectors[1], 0.05, list(range(5)), None, None, 1.0, 0.0)
    torch.testing.assert_close(loss, expected)
    assert loss != Contrastive()(views(*vectors), batch=None)  # type: ignore[arg-type]


def test_a_corpus_without_soft_negatives_is_refused() -> None:
    with pytest.raises(InputError, match=r"third column in data\.columns"):
        BidirectionalMargin()(views(*torch.randn(2, 3, 4)), batch=None)  # type: ignore[arg-type]
