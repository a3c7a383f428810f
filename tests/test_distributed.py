"""Two processes against one: the same loss and the same gradients on the same global batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sentrep import ProjectionHead, SentRepModule, distributed
from sentrep.objectives import Contrastive
from sentrep.types import TextBatch, TokenBatch
from support import run_processes, text_batch, tiny_encoder, toy_sentences

WORLD = 2


def _rows(batch: TextBatch, start: int, stop: int) -> TextBatch:
    def part(tokens: TokenBatch | None) -> TokenBatch | None:
        return None if tokens is None else TokenBatch(tokens.input_ids[start:stop], tokens.attention_mask[start:stop])

    anchor = part(batch.anchor)
    assert anchor is not None
    return TextBatch(anchor, part(batch.positive), part(batch.negative), batch.rows[start:stop])


def loss_and_gradients(kind: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean over the processes of loss and gradients, each process holding its share of one global batch of 8."""
    encoder = tiny_encoder(dropout=0.0).double()  # float32 leaves rounding of 4e-6 after the division by τ
    sentences = toy_sentences(24)
    hard = sentences[16:] if kind == "hard negatives" else None
    batch = text_batch(encoder, sentences[:8], sentences[8:16], hard)
    objective = Contrastive(
        label_smoothing=0.1 if kind == "smoothing" else 0.0,
        hard_negative_weight=0.7 if kind == "hard negatives" else 0.0,
    )
    module = SentRepModule(encoder, {"simcse": objective}, head=ProjectionHead("mlp"), seed=1).double()
    share = 8 // distributed.world_size()
    batch = _rows(batch, distributed.rank() * share, (distributed.rank() + 1) * share)
    loss, _ = module.objectives(module.views(encoder, batch, {}), batch)
    loss.backward()
    loss = loss.detach()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    if distributed.world_size() > 1:  # what DDP does
        for tensor in (loss, *gradients.values()):
            torch.distributed.all_reduce(tensor)
            tensor /= distributed.world_size()
    return loss, gradients


@pytest.mark.parametrize("kind", ["plain", "smoothing", "hard negatives"])
def test_contrastive_loss_and_gradients_equal_one_process(kind: str) -> None:
    loss, gradients = loss_and_gradients(kind)
    for other_loss, other in run_processes(loss_and_gradients, WORLD, kind):
        torch.testing.assert_close(other_loss, loss, rtol=0, atol=1e-10)
        assert other.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=1e-10, msg=name)


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
