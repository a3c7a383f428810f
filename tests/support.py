"""What several tests share: real data where there is some, tiny encoders, several processes."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from sentrep import SentenceEncoder, SentRepModule, TextBatch, distributed
from sentrep.data import toy
from sentrep.encoder.encoding import pad
from sentrep.types import TokenBatch

SHARED = Path(__file__).resolve().parents[2] / "shared"

# The smallest model of every family that the encoder promises to work with. The padding id is the toy tokenizer's,
# because RoBERTa and its kin count positions from it.
_SIZES = {
    "vocab_size": 4000,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_SIZES},
    "roberta": {"model_type": "roberta", **_SIZES},
    "distilbert": {
        "model_type": "distilbert", "vocab_size": 4000, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48,
        "max_position_embeddings": 66, "pad_token_id": 0,
    },
    "mpnet": {"model_type": "mpnet", **_SIZES, "pad_token_id": 1},
    "electra": {"model_type": "electra", **_SIZES, "embedding_size": 16},
    "albert": {"model_type": "albert", **_SIZES, "embedding_size": 16},
    "modernbert": {
        "model_type": "modernbert", **_SIZES, "bos_token_id": 2, "eos_token_id": 3,
        "cls_token_id": 2, "sep_token_id": 3, "global_attn_every_n_layers": 1,
    },
}  # fmt: skip


def shared_path(relative: str) -> Path:
    """A file or folder of the real data beside the repository; the test is skipped where it is absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"needs the real data ../shared/{relative}, which is not on this machine")
    return path


def tiny_encoder(family: str = "bert", seed: int = 0, **arguments: Any) -> SentenceEncoder:
    """A tiny encoder with random weights and the toy tokenizer."""
    torch.manual_seed(seed)
    arguments.setdefault("tokenizer", "toy")
    return SentenceEncoder(dict(FAMILIES[family]), **arguments)


def text_batch(
    encoder: SentenceEncoder,
    sentences: list[str],
    positives: list[str] | None = None,
    negatives: list[str] | None = None,
) -> TextBatch:
    """A training batch of these sentences."""

    def tokens(texts: list[str] | None) -> Any:
        if texts is None:
            return None
        return pad(encoder.tokenize(texts, encoder.max_length)[0], encoder.tokenize.pad_token_id)

    rows = torch.arange(len(sentences))
    return TextBatch(tokens(sentences), tokens(positives), tokens(negatives), rows)


def toy_sentences(count: int) -> list[str]:
    """Some distinct sentences of different lengths."""
    return toy.sentences(count, seed=3)


def loss_and_gradients(module: SentRepModule, batch: TextBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean over the processes of loss and gradients, each process holding its share of the global ``batch``.

    In float64: float32 leaves rounding of 4e-6 after the division by τ.
    """
    module.double()
    share = len(batch) // distributed.world_size()
    part = _rows(batch, distributed.rank() * share, (distributed.rank() + 1) * share)
    views = module.views(module.encoder, part, module.objectives.extra_inputs(part))
    loss, _ = module.objectives(views, part)
    loss.backward()
    loss = loss.detach()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    if distributed.world_size() > 1:  # what DDP does
        for tensor in (loss, *gradients.values()):
            dist.all_reduce(tensor)
            tensor /= distributed.world_size()
    return loss, gradients


def assert_equal_to_one_process(
    results: list[Any], loss: Tensor, gradients: dict[str, Tensor], atol: float = 1e-10
) -> None:
    """Every process's `loss_and_gradients` must be those of one process."""
    for other_loss, other in results:
        torch.testing.assert_close(other_loss, loss, rtol=0, atol=atol)
        assert other.keys() == gradients.keys()
        for name, gradient in gradients.items():
            torch.testing.assert_close(other[name], gradient, rtol=0, atol=atol, msg=name)


def _rows(batch: TextBatch, start: int, stop: int) -> TextBatch:
    def part(tokens: TokenBatch | None) -> Any:
        return None if tokens is None else TokenBatch(tokens.input_ids[start:stop], tokens.attention_mask[start:stop])

    return TextBatch(part(batch.anchor), part(batch.positive), part(batch.negative), batch.rows[start:stop])


def run_processes(function: Callable[..., Any], world: int, *arguments: Any) -> list[Any]:
    """What ``function(*arguments)`` returns on each of ``world`` processes of one gloo group, by rank."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        processes = [
            context.Process(target=_in_group, args=(function, rank, world, folder, arguments)) for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=300)
            assert process.exitcode == 0, f"a process ended with code {process.exitcode}"
        return [torch.load(f"{folder}/result{rank}.pt", weights_only=True) for rank in range(world)]


def _in_group(function: Callable[..., Any], rank: int, world: int, folder: str, arguments: tuple[Any, ...]) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    try:
        torch.save(function(*arguments), f"{folder}/result{rank}.pt")
    finally:
        dist.destroy_process_group()
