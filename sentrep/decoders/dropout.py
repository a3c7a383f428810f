"""Dropout of the decoder, which remembers little for the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sentrep.encoder.compute.cpu import keep


def keep_mask(x: Tensor, p: float) -> Tensor:
    """`keep` in the type of ``x``, already multiplied: 0 or 1 / (1 − p)."""
    kept, scale = keep(x, p)
    return kept.to(x.dtype).mul_(scale)


def relu_dropout(x: Tensor, p: float) -> Tensor:
    """dropout(relu(x)) in training mode, remembering nothing but its output; p in [0, 1)."""
    return _ReluDropout.apply(x, p) if p > 0 else x.relu()


class _ReluDropout(torch.autograd.Function):
    """The output is positive exactly where both relu and dropout let x through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        kept, ctx.scale = keep(x, p)
        out = x.relu().mul_(kept).mul_(ctx.scale)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        return (grad * (out > 0).view(torch.uint8)).mul_(ctx.scale), None
