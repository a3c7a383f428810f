"""Dropout that is cheap on a CPU: four decisions from every random number, where torch draws one per element.

On other devices, and in compiled code, it is torch's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_LEVELS = 2**16


def keep(x: Tensor, p: float) -> tuple[Tensor, float]:
    """What dropout keeps of ``x``, and what it multiplies that with.

    On a CPU p is rounded to a multiple of 2⁻¹⁶, and the factor belongs to the rounded rate, so the expectation is
    exactly 1. The numbers come from torch's global generator, which the module reseeds in every step.

    Args:
        x: any shape, on any device.
        p: in [0, 1).

    Returns:
        Independent draws of the shape of ``x``, uint8 (a quarter of float32, and unlike bool fast to multiply with): 0
        with probability p, else 1; and 1 / (1 − p).
    """
    if x.device.type != "cpu":
        return (torch.rand(x.shape, device=x.device) >= p).view(torch.uint8), 1 / (1 - p)
    dropped = round(p * _LEVELS)
    numbers = torch.empty(math.ceil(x.numel() / 4), dtype=torch.int64).random_(-(2**63), None)
    kept = numbers.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - _LEVELS // 2
    return kept.view(torch.uint8), _LEVELS / (_LEVELS - dropped)


def keep_mask(x: Tensor, p: float) -> Tensor:
    """`keep` in the type of ``x``, already multiplied: 0 or 1 / (1 − p)."""
    kept, scale = keep(x, p)
    return kept.to(x.dtype).mul_(scale)


def dropout(x: Tensor, p: float) -> Tensor:
    """Dropout in training mode, of any shape; on a CPU the rate is exact to 2⁻¹⁶."""
    if x.device.type != "cpu" or not 0 < p < 1 or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return _Dropout.apply(x, p)


def relu_dropout(x: Tensor, p: float) -> Tensor:
    """dropout(relu(x)) in training mode, remembering nothing but its output; p in [0, 1)."""
    return _ReluDropout.apply(x, p) if p > 0 else x.relu()


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        kept, ctx.scale = keep(x, p)
        ctx.save_for_backward(kept)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (grad * kept).mul_(ctx.scale), None


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
