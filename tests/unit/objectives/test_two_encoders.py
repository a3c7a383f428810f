"""Objectives of two encoders against loops from the papers, in value and gradient."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from references.two_encoders import contrastive_tension, momentum_contrast
from sentrep import Objective, SentRepModule
from sentrep.objectives import ContrastiveTension, MomentumContrast
from sentrep.types import Need
from support import assert_same_gradients, text_batch, tiny_encoder, toy_sentences

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
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # there are enough other sentences
        loss, views, batch = step(objective, SENTENCES, given)
    read = batch.positive if given else batch.anchor
    expected = contrastive_tension(views.anchor, objective.other(read).embedding, 3)
    assert_same_gradients(loss, expected, [views.anchor, *objective.other.parameters()], rtol=1e-8)
    products = (views.anchor @ objective.other(read).embedding.T).detach()
    shifted = torch.stack([products.roll(-shift, 1).diagonal() for shift in range(4)])
    torch.testing.assert_close(objective.metrics, {"positive": shifted[0].mean(), "negative": shifted[1:].mean()})


@pytest.mark.parametrize(
    "objective", [ContrastiveTension(negatives=3), MomentumContrast()], ids=["tension", "momentum"]
)
def test_the_second_encoder_is_asked_for_vectors_alone(objective: Any) -> None:
    step(objective, SENTENCES, False)
    second = objective.other if isinstance(objective, ContrastiveTension) else objective.follower
    asked: list[Any] = []
    second.register_forward_pre_hook(lambda _, __, given: asked.append(given["need"]), with_kwargs=True)
    step(objective, SENTENCES, False)
    assert asked == [Need(tokens=False)]


def test_contrastive_tension_needs_other_sentences() -> None:
    objective = ContrastiveTension()
    with pytest.warns(UserWarning, match="a batch of 4 has fewer others than 7 negatives"):
        loss, views, batch = step(objective, SENTENCES[:4], False)
    expected = contrastive_tension(views.anchor, objective.other(batch.anchor).embedding, 3)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("in_batch", [False, True])
def test_momentum_contrast_equals_the_loop_over_three_steps(given: bool, in_batch: bool) -> None:
    """The queue of 6 keys holds nothing, the first batch of 4, then the newest six."""
    objective = MomentumContrast(temperature=0.3, size=6, momentum=0.5, in_batch=in_batch)
    past: list[Tensor] = []
    for start in (0, 4, 8):
        loss, views, batch = step(objective, SENTENCES[start : start + 4], given)
        fresh = objective.follower(batch.positive if given else batch.anchor).embedding
        queue = torch.stack(past[-6:]).float().double() if past else fresh[:0]
        expected = momentum_contrast(views.anchor, views.positive if in_batch else fresh, queue, 0.3, in_batch)
        if past or in_batch:
            assert_same_gradients(loss, expected, [views.anchor, views.positive], rtol=1e-6, atol=1e-7)
        else:
            assert loss == expected == 0, "nothing to contrast with"
        past += [*fresh]
        objective.after_step(views)
    assert objective.queue.fill == 6
