"""Objectives of two encoders against loops from the papers, in value and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from references.two_encoders import contrastive_tension, momentum_contrast
from sentrep import InputError, Objective, SentRepModule
from sentrep.objectives import ContrastiveTension, MomentumContrast
from support import text_batch, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(12)


def step(objective: Any, sentences: list[str], given: bool) -> tuple[Tensor, Any, Any]:
    """Loss, views with a gradient of their own, and the batch."""
    if not hasattr(objective, "module"):
        terms: dict[str, Objective | None] = {"term": objective}
        object.__setattr__(objective, "module", SentRepModule(tiny_encoder(dropout=0.0), terms).double())
    module = objective.module
    batch = text_batch(module.encoder, sentences, sentences[::-1] if given else None)
    views = module.views_of(batch)
    views.anchor = views.anchor.detach().requires_grad_()
    views.positive = views.positive.detach().requires_grad_()
    return objective(views, batch), views, batch


@pytest.mark.parametrize("given", [False, True])
def test_contrastive_tension_equals_the_loop(given: bool) -> None:
    objective = ContrastiveTension(negatives=3)
    loss, views, batch = step(objective, SENTENCES, given)
    read = batch.positive if given else batch.anchor
    anchor = views.anchor.detach().requires_grad_()
    expected = contrastive_tension(anchor, objective.other(read).embedding, 3)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    parameters = [*objective.other.parameters()]
    found = torch.autograd.grad(loss, [views.anchor, *parameters])
    for one, other in zip(found, torch.autograd.grad(expected, [anchor, *parameters]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_contrastive_tension_needs_other_sentences() -> None:
    objective = ContrastiveTension()
    with pytest.warns(UserWarning, match="a batch of 4 has fewer others than 7 negatives"):
        loss, views, batch = step(objective, SENTENCES[:4], False)
    expected = contrastive_tension(views.anchor, objective.other(batch.anchor).embedding, 3)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(InputError, match="a batch of one sentence has no others"):
        step(ContrastiveTension(), SENTENCES[:1], False)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("in_batch", [False, True])
def test_momentum_contrast_equals_the_loop_over_three_steps(given: bool, in_batch: bool) -> None:
    """The queue of 6 keys holds nothing, the first batch of 4, then the newest six."""
    objective = MomentumContrast(temperature=0.3, size=6, momentum=0.5, in_batch=in_batch)
    past: list[Tensor] = []
    for start in (0, 4, 8):
        loss, views, batch = step(objective, SENTENCES[start : start + 4], given)
        fresh = objective.follower(batch.positive if given else batch.anchor).embedding
        anchor, positive = (x.detach().requires_grad_() for x in (views.anchor, views.positive))
        queue = torch.stack(past[-6:]).float().double() if past else fresh[:0]
        expected = momentum_contrast(anchor, positive if in_batch else fresh, queue, 0.3, in_batch)
        torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-7)
        wanted = ([views.anchor, views.positive], [anchor, positive]) if in_batch else ([views.anchor], [anchor])
        found, others = torch.autograd.grad(loss, wanted[0]), torch.autograd.grad(expected, wanted[1])
        for one, other in zip(found, others, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        past += [*fresh]
        objective.after_step(views)
    assert objective.queue.fill == 6
