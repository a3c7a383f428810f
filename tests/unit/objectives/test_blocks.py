"""The contrastive objective with its similarities in blocks, for everything that it can be combined with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from samplers import KINDS
from torch import Tensor

from sentrep import SentRepModule, negatives
from sentrep.negatives import NegativeSampler
from sentrep.objectives import Contrastive, contrastive
from sentrep.weighting import ComplementaryWeighting, PairWeighting, SelfWeighting
from support import text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(36)
WEIGHTINGS: dict[str, Callable[[str], PairWeighting | None]] = {
    "unweighted": lambda teacher: None,
    "complementary": lambda teacher: ComplementaryWeighting(teacher, 0.5),
    "self": lambda teacher: SelfWeighting(0.5, kind="soft"),
}


def sampler(kind: str | None, weight: float) -> dict[str, NegativeSampler | None] | None:
    if kind is None:
        return None
    name, arguments = KINDS[kind]
    return {"extra": getattr(negatives, name)(**{**arguments, "weight": weight})}


def result(objective: Contrastive, hard: bool, dropout: float = 0.0) -> tuple[Tensor, list[Tensor]]:
    """Loss and gradients, in float64, of the second step: samplers that remember have something to remember."""
    encoder = tiny_encoder(dropout=dropout)
    module = SentRepModule(encoder, {"contrastive": objective})
    encoder.double()  # the samplers compute in float32
    batch = text_batch(encoder, *(SENTENCES[start : start + 12] for start in ((0, 12, 24) if hard else (0, 12))))
    torch.manual_seed(5)
    with torch.no_grad():
        module.objectives.after_step(module.views_of(batch))
    loss, _ = module.objectives(module.views_of(batch), batch)
    assert loss.dtype == torch.float64
    return loss.detach(), list(torch.autograd.grad(loss, list(encoder.parameters())))


@pytest.mark.parametrize("kind", [None, "gaussian", "bank", "mixed", "through the statistics"])
def test_samplers_of_every_shape(kind: str | None) -> None:
    both = [result(Contrastive(negatives=sampler(kind, weight=0.5), block=block), hard=False) for block in (0, 5)]
    torch.testing.assert_close(both[1], both[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("bonus", [0.0, 0.7])
def test_weights_smoothing_and_hard_negatives(teacher: str, weighting: str, bonus: float) -> None:
    def made(block: int) -> Contrastive:
        return Contrastive(
            negatives=sampler("gaussian", 0.5),
            weighting=WEIGHTINGS[weighting](teacher),
            label_smoothing=0.1,
            hard_negative_weight=bonus,
            block=block,
        )

    plain, blocked = (result(made(block), hard=True) for block in (0, 5))
    torch.testing.assert_close(blocked, plain, rtol=0, atol=1e-10)


def test_an_unweighted_sampler_under_dropout() -> None:
    made = [Contrastive(negatives=sampler("gaussian", weight=1.0), block=block) for block in (0, 5)]
    plain, blocked = (result(objective, hard=False, dropout=0.3) for objective in made)
    torch.testing.assert_close(blocked, plain, rtol=0, atol=1e-10)


def test_the_block_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int | None] = []
    plain = contrastive.info_nce
    monkeypatch.setattr(contrastive, "info_nce", lambda *a, **k: blocks.append(k["block"]) or plain(*a, **k))
    result(Contrastive(block=5), hard=False)
    result(Contrastive(), hard=False)
    assert blocks == [5, None]
