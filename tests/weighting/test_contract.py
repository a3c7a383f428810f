"""What every weighting of pairs promises."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sentrep import PairWeighting, TextBatch, weighting
from sentrep.objectives import Contrastive
from sentrep.weighting import ComplementaryWeighting, OnlyExtraNegatives, SelfWeighting
from support import plugged, rebuilt, text_batch, tiny_encoder
from weighting.test_complementary import ANCHORS, Fixed, views

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


def test_every_weighting_is_tested() -> None:
    public = {getattr(weighting, name) for name in weighting.__all__}
    assert {type(make("x")) for make in CASES.values()} == {c for c in public if not inspect.isabstract(c)}


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


def test_the_gradient_of_the_weighted_loss_reaches_the_views(pairs: PairWeighting, batch: TextBatch) -> None:
    x = views()
    objective = Contrastive(negatives={"noise": Fixed(NOISE.tolist())}, weighting=pairs)
    objective.build(*plugged(tiny_encoder(), 5))
    loss = objective(x, batch)
    loss.backward()
    assert loss.dtype == torch.float32
    for view in (x.anchor, x.positive):
        assert view.grad is not None
        assert torch.isfinite(view.grad).all()
        assert view.grad.abs().sum() > 0
    assert {name: objective.metrics[name] for name in pairs.metrics} == pairs.metrics


def test_bfloat16_autocast_gives_float32(pairs: PairWeighting, batch: TextBatch) -> None:
    x = views()
    full = pairs(batch, x, NOISE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = pairs(batch, x, NOISE)
    assert half.dtype == torch.float32
    assert (half - full).abs().mean() < 0.1


def test_state_copies_and_configuration_survive(pairs: PairWeighting, batch: TextBatch) -> None:
    x = views()
    expected = pairs(batch, x, NOISE)
    made = rebuilt(pairs, PairWeighting)
    made.build(*plugged(tiny_encoder(), 5))
    made.load_state_dict(copy.deepcopy(pairs.state_dict()))
    for again in (made, copy.deepcopy(pairs), pickle.loads(pickle.dumps(pairs))):
        assert torch.equal(again(batch, x, NOISE), expected)
