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
from sentrep.objectives.nt_xent import both_ways
from sentrep.types import Views
from sentrep.weighting import SelfWeighting

OUTPUT: Any = None


def views(hard: bool, rows: int = 2) -> Views:
    anchor, positive, negative = torch.randn(3, rows, 4, requires_grad=True).unbind()
    return Views(anchor, positive, negative if hard else None, OUTPUT, OUTPUT)


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
    kind(block=block)(views(False), OUTPUT)
    assert blocks == [block]


def test_weights_of_one_are_left_out() -> None:
    assert Candidates.gather(views(False), [sampler(1.0)]).weights(None, 2.0) is None
    assert Candidates.gather(views(True), []).weights(None, 0.0) is None


@pytest.mark.parametrize("way", ["plain", "both views ask", "the weights are of logits"])
def test_each_sampler_has_a_dose_of_its_own(way: str) -> None:
    """Whatever the order of samplers of all anchors and of one; a bank that has nothing yet has 0."""
    plain, both, made = way != "the weights are of logits", way == "both views ask", views(True, rows=5)
    samplers: dict[str, NegativeSampler | None] = {"many": GaussianNegatives(2.0, weight=0.5), "bank": MemoryBank(3)}
    samplers |= {"each": OfEachAnchor(0.3)} if plain else {}
    samplers["few"] = GaussianNegatives(0.4)
    objective: Any = {
        "plain": lambda: Contrastive(0.3, samplers, hard_negative_weight=1.0),
        "both views ask": lambda: NTXent(0.3, samplers),
        "the weights are of logits": lambda: BinaryContrastive(0.3, samplers, SelfWeighting(0.1)),
    }[way]()
    objective.build(spec(width=4), services())
    objective(made, None)
    metrics = objective.metrics
    inner = objective if way == "plain" else objective.contrast
    candidates, weights = inner.compared(made, None)
    if both:
        candidates = both_ways(candidates, made.anchor)
        weights = candidates.weights(None, 0.0)
    drawn = [sampler.sample(made.anchor.detach(), made.positive.detach()) for sampler in inner.negatives.values()]
    queries = torch.cat([made.anchor, made.positive]) if both else made.anchor
    if plain:  # the columns have the draws of one anchor last
        lengths = {"many": 10, "bank": 0, "few": 2, "each": 2}
        parts = weights[:, len(candidates.keys) :].split(list(lengths.values()), dim=1)
        of_each = dict(zip(lengths, parts, strict=True))
        weights = torch.cat([weights[:, : len(candidates.keys)], *(of_each[name] for name in samplers)], dim=1)
        drawn = [torch.cat([part, part])[: len(queries)] if part.ndim == 3 else part for part in drawn]
    expected = dose(queries, candidates.keys, candidates.positives.tolist(), drawn, 0.3, weights, not plain)
    found = {name: metrics[f"dose/{name}"].item() for name in samplers}
    assert found == pytest.approx(dict(zip(samplers, expected, strict=True)), rel=1e-4)
    assert found["bank"] == 0 < found["few"]
    assert not any(value.requires_grad for value in metrics.values())
