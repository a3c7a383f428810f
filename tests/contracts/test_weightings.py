"""What every weighting of pairs promises."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sentrep import PairWeighting, TextBatch
from sentrep.weighting import ComplementaryWeighting, OnlyExtraNegatives, SelfWeighting
from support import plugged, text_batch, tiny_encoder
from unit.weighting.test_complementary import ANCHORS, views

CASES: dict[str, Callable[[str], PairWeighting]] = {
    "complementary": lambda teacher: ComplementaryWeighting(teacher, 0.9),
    "complementary, soft": lambda teacher: ComplementaryWeighting(teacher, 0.9, kind="soft", softness=0.2),
    "complementary, noise free": lambda teacher: ComplementaryWeighting(teacher, 0.9, mask_noise=False),
    "self": lambda teacher: SelfWeighting(0.1),
    "self, soft": lambda teacher: SelfWeighting(0.1, kind="soft"),
    "self, noise free": lambda teacher: SelfWeighting(0.1, mask_noise=False),
    "only extra": lambda teacher: OnlyExtraNegatives(),
}
NOISE = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=CASES)
def pairs(request: pytest.FixtureRequest, teacher: str) -> PairWeighting:
    made = CASES[request.param](teacher)
    made.build(*plugged(tiny_encoder(), 5))
    return made


@pytest.fixture(scope="module")
def batch() -> TextBatch:
    return text_batch(tiny_encoder(), ANCHORS)


@pytest.mark.parametrize("noise", [NOISE, NOISE[:0]])
def test_weights_are_finite_not_negative_and_without_gradient(
    pairs: PairWeighting, batch: TextBatch, noise: Tensor
) -> None:
    x = views()
    before = copy.deepcopy([x.anchor.detach(), x.positive.detach(), noise])
    weights = pairs(batch, x, noise)
    assert weights.shape == (8, 8 + len(noise))
    assert torch.isfinite(weights).all()
    assert (weights >= 0).all()
    assert not weights.requires_grad
    assert all(torch.equal(one, two) for one, two in zip(before, (x.anchor, x.positive, noise), strict=True))
    masked = {"masked"} | ({"masked_extra"} if len(noise) else set())
    assert set(pairs.metrics) == (set() if isinstance(pairs, OnlyExtraNegatives) else masked)
    assert all(value.shape == () and 0 <= value <= 1 for value in pairs.metrics.values())


def test_copies_give_the_same_weights(pairs: PairWeighting, batch: TextBatch) -> None:
    """A pickled one, too: a spawned process gets it."""
    expected = pairs(batch, views(), NOISE)
    for again in (copy.deepcopy(pairs), pickle.loads(pickle.dumps(pairs))):
        assert torch.equal(again(batch, views(), NOISE), expected)
