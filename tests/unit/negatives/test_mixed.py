"""Mixed negatives, against loops in value and gradient."""

from __future__ import annotations

import pytest
import torch
from samplers import WIDTH, advance, built, embeddings

from references.samplers import mixed_negatives
from sentrep.random import step_generator


def partners(step: int) -> list[int]:
    """Whom a sampler of `built` mixes into each of 8 rows."""
    steps = torch.randint(1, 8, (8,), generator=step_generator(5, "extra", step))
    return [(row + int(further)) % 8 for row, further in enumerate(steps)]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_it_equals_the_loop(share: float) -> None:
    sampler = built("mixed", share=share)
    for step in range(3):
        anchors, keys = embeddings(step)
        expected = mixed_negatives(keys, partners(step), share)
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
