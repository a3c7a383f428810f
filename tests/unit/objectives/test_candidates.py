"""The columns of a contrastive loss: own keys, hard negatives, drawn negatives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from samplers import services, spec
from torch import Tensor

from references.samplers import dose
from sentrep import InputError, distributed
from sentrep.negatives import GaussianNegatives, MemoryBank, NegativeSampler
from sentrep.objectives import ArcCon, BinaryContrastive, Contrastive, NTXent, contrastive
from sentrep.objectives.contrastive import Candidates
from sentrep.types import Views
from sentrep.weighting import SelfWeighting
from support import bare_views


def views(hard: bool) -> Views:
    return bare_views(*torch.randn(2 + hard, 2, 4, requires_grad=True).unbind())


def sampler(weight: float) -> NegativeSampler:
    made = GaussianNegatives(ratio=0.5, weight=weight)
    made.build(spec(4), "noise")
    return made


@pytest.mark.parametrize("hard", [False, True])
def test_each_tensor_is_gathered_once(hard: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[Tensor] = []
    monkeypatch.setattr(distributed, "gather", lambda x: gathered.append(x) or x)
    made = views(hard)
    candidates = Candidates.gather(made, [sampler(1.0)])
    assert len(gathered) == 2 + hard
    assert len(candidates) == 2 + 2 * hard + 1
    assert candidates.drawn.requires_grad is False
    assert torch.equal(candidates.keys[:2], made.positive)
    assert candidates.keys.requires_grad


def test_columns_are_own_then_hard_then_drawn() -> None:
    candidates = Candidates.gather(views(True), [sampler(0.5)])
    pairs = torch.tensor([[1.0, 0.2, 0.3], [0.4, 1.0, 0.6]])
    bonus = math.exp(2.0)
    expected = [[1.0, 0.2, bonus, 1.0, 0.15], [0.4, 1.0, 1.0, bonus, 0.3]]
    torch.testing.assert_close(candidates.weights(pairs, 2.0), torch.tensor(expected))
    torch.testing.assert_close(candidates.weights(None, 0.0), torch.tensor([[1.0, 1, 1, 1, 0.5]] * 2))


class OfEachAnchor(NegativeSampler):
    """Two negatives of each anchor: of its number and of the next."""

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        return torch.stack([keys, keys.roll(-1, 0)], dim=1) + 1


class Misshapen(NegativeSampler):
    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        return keys[:1, None]


def test_those_of_one_anchor_come_last_and_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the second of two processes, whose rows are the last two of four."""
    monkeypatch.setattr(distributed, "gather", lambda x: torch.cat([x + 7, x]))
    monkeypatch.setattr(distributed, "own_rows", lambda count, device: torch.arange(2, 4))
    made = views(True)
    candidates = Candidates.gather(made, [OfEachAnchor(0.3), sampler(0.5), OfEachAnchor(0.2)])
    own = made.positive[:, None].detach() + 1
    assert torch.equal(candidates.drawn_by_row[:2, 0::2], own.expand(-1, 2, -1))
    assert torch.equal(candidates.drawn_by_row[0, 1], own[1, 0])
    assert candidates.drawn.shape == (2, 4)  # half as many as four
    assert candidates.drawn_by_row.shape == (2, 4, 4)
    assert len(candidates) == 4 + 4 + 2 + 4
    weights = candidates.weights(None, 0.0)
    assert weights is not None
    torch.testing.assert_close(weights[:, -6:], torch.tensor([0.5, 0.5, 0.3, 0.3, 0.2, 0.2]).expand(len(weights), -1))
    weighted = candidates.weights(torch.full((2, 4 + 2), 0.5), 0.0)
    assert weighted is not None
    torch.testing.assert_close(weighted[0, -6:], torch.tensor([0.25, 0.25, 0.3, 0.3, 0.2, 0.2]))


def test_a_shape_that_fits_no_anchors_is_refused() -> None:
    with pytest.raises(InputError, match=r"Misshapen.sample returned .* \(1, 1, 4\); expected .* \(2, k, D\)"):
        Candidates.gather(views(False), [Misshapen()])


@pytest.mark.parametrize("kind", [Contrastive, NTXent, ArcCon])
@pytest.mark.parametrize("block", [5, 0, None])
def test_the_block_is_handed_on(kind: Any, block: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int | None] = []
    plain = contrastive.info_nce
    monkeypatch.setattr(contrastive, "info_nce", lambda *a, **k: blocks.append(k["block"]) or plain(*a, **k))
    kind(block=block)(views(False), None)
    assert blocks == [block]


def test_weights_of_one_are_left_out() -> None:
    assert Candidates.gather(views(False), [sampler(1.0)]).weights(None, 2.0) is None
    assert Candidates.gather(views(True), []).weights(None, 0.0) is None


@pytest.mark.parametrize("kind", [Contrastive, NTXent])
def test_the_dose_of_a_sampler_is_the_slope_of_the_loss_by_the_log_of_its_weight(kind: Any) -> None:
    """Whatever the order of samplers of all anchors and of one; a bank that has nothing yet has 0."""
    samplers: dict[str, NegativeSampler] = {"many": GaussianNegatives(2.0, weight=0.5), "bank": MemoryBank(3)}
    samplers |= {"each": OfEachAnchor(0.3), "few": GaussianNegatives(0.4), "own": OfEachAnchor()}
    objective = kind(0.3, samplers)
    objective.build(spec(width=4), services())
    made = bare_views(*torch.randn(3, 5, 4, dtype=torch.float64))
    objective(made, None)
    doses = {name: objective.metrics[f"dose/{name}"].item() for name in samplers}
    for name, sampler in samplers.items():
        weight, losses = sampler.weight, []
        for change in (1e-4, -1e-4):
            sampler.weight = weight * math.exp(change)
            losses.append(objective(made, None).item())
        sampler.weight = weight
        assert doses[name] == pytest.approx((losses[0] - losses[1]) / 2e-4, rel=1e-4)
    assert doses["bank"] == 0 < doses["few"]


def test_weights_of_logits_are_in_the_dose() -> None:
    made = bare_views(*torch.randn(2, 5, 4))
    objective = BinaryContrastive(0.3, {"noise": GaussianNegatives(2.0)}, SelfWeighting(0.1))
    objective.build(spec(width=4), services())
    objective(made, None)
    _, weights = objective.contrast.compared(made, None)
    drawn = objective.contrast.negatives["noise"].sample(made.anchor, made.positive)
    (expected,) = dose(made.anchor, made.positive, list(range(5)), [drawn], 0.3, weights, multiplied=True)
    assert objective.metrics["dose/noise"].item() == pytest.approx(expected, rel=1e-4)
