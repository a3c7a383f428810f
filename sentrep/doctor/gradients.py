"""Loss and gradients of a global batch on any number of processes, and how far two of them are apart."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from sentrep import distributed
from sentrep.module import SentRepModule
from sentrep.types import TextBatch, TokenBatch

Gradients = dict[str, Tensor]


def loss_and_gradients(module: SentRepModule, batch: TextBatch) -> tuple[Tensor, Gradients]:
    """Mean over the processes of loss and gradients, each process holding its share of the global ``batch``.

    In float64: float32 leaves rounding of 4e-6 after the division by τ.
    """
    module.double()
    part = _rows(batch, distributed.own_rows(len(batch) // distributed.world_size(), batch.rows.device))
    views = module.views_of(part)
    loss, _ = module.objectives(views, part)
    loss.backward()
    loss, gradients = loss.detach(), gradients_of(module)
    if distributed.world_size() > 1:  # what DDP does
        for tensor in (loss, *gradients.values()):
            dist.all_reduce(tensor)
            tensor /= distributed.world_size()
    return loss, gradients


def gradients_of(module: torch.nn.Module) -> Gradients:
    """The gradients that are there, by parameter."""
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def relative_difference(found: Gradients, expected: Gradients) -> float:
    """max |found − expected| / max |expected| over all entries; infinite where one of them lacks a tensor.

    Examples:
        >>> relative_difference({"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.0, 4.0])})
        0.5
    """
    if found.keys() != expected.keys() or not expected:
        return float("inf")
    whole = torch.cat([tensor.flatten() for tensor in expected.values()])
    apart = torch.cat([found[name].flatten() for name in expected]) - whole
    return float(apart.abs().max() / whole.abs().max().clamp(min=torch.finfo(whole.dtype).tiny))


def _rows(batch: TextBatch, rows: Tensor) -> TextBatch:
    def part(tokens: TokenBatch | None) -> TokenBatch | None:
        return None if tokens is None else TokenBatch(tokens.input_ids[rows], tokens.attention_mask[rows])

    anchor = part(batch.anchor)
    assert anchor is not None
    return TextBatch(anchor, part(batch.positive), part(batch.negative), batch.rows[rows])
