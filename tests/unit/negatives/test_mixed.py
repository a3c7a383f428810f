"""Mixed negatives, against loops in value and gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from samplers import WIDTH, advance, built, embeddings, services, spec

from references.info_nce import info_nce_loop
from references.samplers import mixed_negatives
from sentrep.negatives import MixedNegatives
from sentrep.objectives import Contrastive
from sentrep.random import step_generator
from sentrep.types import Views

NOTHING: Any = None


def partners(step: int) -> list[int]:
    """Whom a sampler of `built` mixes into each of 8 rows."""
    steps = torch.randint(1, 8, (8,), generator=step_generator(5, "extra", step))
    return [(row + int(further)) % 8 for row, further in enumerate(steps)]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_it_equals_the_loop(share: float) -> None:
    sampler = built("mixed", share=share)
    for step in range(3):
        anchors, keys = embeddings(step)
        expected = torch.tensor(mixed_negatives(keys, partners(step), share))
        torch.testing.assert_close(sampler.sample(anchors, keys)[:, 0], expected)
        advance(sampler, anchors)


def test_nobody_is_mixed_with_itself_and_anybody_with_anybody_else() -> None:
    keys, sampler, seen = torch.eye(5), built("mixed", share=0.0), set()
    for _ in range(60):
        others = sampler.sample(keys, keys)[:, 0].argmax(1)
        seen |= {*enumerate(others.tolist())}
        advance(sampler, keys)
    assert seen == {(row, other) for row in range(5) for other in range(5) if row != other}


def test_a_single_sentence_has_nobody_to_be_mixed_with() -> None:
    assert built("mixed").sample(*embeddings(rows=1)).shape == (1, 0, WIDTH)


def test_the_loss_is_the_paper_s_in_value_and_gradient() -> None:
    anchor, positive, _ = leaves = list(torch.randn(3, 8, WIDTH, dtype=torch.float64).requires_grad_().unbind())
    objective = Contrastive(0.1, {"extra": MixedNegatives(share=0.3)})
    objective.build(spec(), services())
    loss = objective(Views(anchor, positive, None, NOTHING, NOTHING), NOTHING)
    mixed = torch.tensor(mixed_negatives(positive.detach(), partners(0), 0.3), dtype=torch.float64)[:, None]
    expected = info_nce_loop(anchor, positive, 0.1, [*range(8)], None, None, 1.0, 0.0, mixed)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad(x, leaves[:2]) for x in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)
