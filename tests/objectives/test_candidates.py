"""The columns of a contrastive loss: own keys, hard negatives, drawn negatives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from samplers import spec
from torch import Tensor

from sentrep import distributed
from sentrep.negatives import GaussianNegatives, NegativeSampler
from sentrep.objectives.candidates import Candidates
from sentrep.types import Views

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


def test_weights_of_one_are_left_out() -> None:
    assert Candidates.gather(views(False), [sampler(1.0)]).weights(None, 2.0) is None
    assert Candidates.gather(views(True), []).weights(None, 0.0) is None
