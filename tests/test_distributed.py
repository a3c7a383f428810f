"""Two processes against one: the same loss and the same gradients on the same global batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentrep import ProjectionHead, SentRepModule, distributed
from sentrep.objectives import Contrastive
from support import (
    assert_equal_to_one_process,
    loss_and_gradients,
    run_processes,
    text_batch,
    tiny_encoder,
    toy_sentences,
)

WORLD = 2


def contrastive(kind: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients on one global batch of 8."""
    encoder = tiny_encoder(dropout=0.0)
    sentences = toy_sentences(24)
    hard = sentences[16:] if kind == "hard negatives" else None
    objective = Contrastive(
        label_smoothing=0.1 if kind == "smoothing" else 0.0,
        hard_negative_weight=0.7 if kind == "hard negatives" else 0.0,
    )
    module = SentRepModule(encoder, {"simcse": objective}, head=ProjectionHead("mlp"), seed=1)
    return loss_and_gradients(module, text_batch(encoder, sentences[:8], sentences[8:16], hard))


@pytest.mark.parametrize("kind", ["plain", "smoothing", "hard negatives"])
def test_contrastive_loss_and_gradients_equal_one_process(kind: str) -> None:
    assert_equal_to_one_process(run_processes(contrastive, WORLD, kind), *contrastive(kind))


def _sharded_squares(count: int) -> Tensor:
    return distributed.sharded(lambda items: torch.tensor([[i, i * i] for i in items]).float(), list(range(count)))


@pytest.mark.parametrize("count", [1, 4, 7])
def test_sharded_work_equals_one_process(count: int) -> None:
    for result in run_processes(_sharded_squares, WORLD, count):
        assert torch.equal(result, _sharded_squares(count))


def _draws() -> tuple[Tensor, Tensor]:
    shared = torch.randn(3, generator=distributed.step_generator(7, "noise", 5))
    distributed.seed_step(7, 0, 5)
    return shared, torch.rand(3)


def test_noise_is_shared_and_dropout_is_not() -> None:
    (noise0, dropout0), (noise1, dropout1) = run_processes(_draws, WORLD)
    assert torch.equal(noise0, noise1)
    assert not torch.equal(dropout0, dropout1)


def test_streams_and_steps_differ() -> None:
    draws = {
        tuple(torch.randn(2, generator=distributed.step_generator(seed, stream, step)).tolist())
        for seed in (1, 2)
        for stream in ("a", "b")
        for step in (0, 1)
    }
    assert len(draws) == 8
