"""Dropout that is cheap on a CPU: four decisions from every random number, and attention that keeps to matrix products.

torch draws one number per element there, on one thread, and its attention leaves the fused kernel; together they cost a
quarter of a training step. On other devices, and in compiled code, everything here is torch's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from sentrep.encoder.compute.attention import attention, mask_without_waiting, within_sentences
from sentrep.encoder.compute.layouts import Layout

_ATTENTION = "sentrep_cpu"
_LEVELS = 2**16


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


class FastDropout(nn.Dropout):
    """``nn.Dropout`` with `keep` on a CPU; the rate is exact to 2⁻¹⁶."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape; the input itself in evaluation mode."""
        return dropout(input, self.p) if self.training else input


def dropout(x: Tensor, p: float) -> Tensor:
    """Dropout in training mode."""
    if x.device.type != "cpu" or not 0 < p < 1 or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return _Dropout.apply(x, p)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packing: Layout | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor | None]:
    """`sentrep.encoder.compute.attention`, but on a CPU softmax(QKᵀ·s + mask), dropout, V where that is faster."""
    if packing is not None:
        return within_sentences(_attention, module, query, key, value, packing, dropout, scaling, **arguments)
    causal = arguments.get("is_causal")
    if causal is None:  # sdpa's rule: without a mask a decoder's attention is causal
        causal = attention_mask is None and getattr(module, "is_causal", True)
    special = causal or arguments.get("position_bias") is not None or key.shape[1] != query.shape[1]
    if (
        query.device.type != "cpu"
        or special
        or not _products_are_faster(query, dropout)
        or torch.compiler.is_compiling()
    ):
        return attention(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **arguments)
    scores = query * (query.shape[-1] ** -0.5 if scaling is None else scaling) @ key.transpose(-1, -2)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    probabilities = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    if dropout > 0:
        probabilities = _Dropout.apply(probabilities, dropout)
    return (probabilities.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


def _products_are_faster(query: Tensor, dropout: float) -> bool:
    """Measured on a CPU.

    With dropout torch leaves its fused kernel. In bfloat16 the kernel's backward pass takes 4 to 8 times as long as
    plain products; without a gradient products save a few per cent of `encode`, in long sentences nothing.
    """
    longest = 48
    if torch.is_grad_enabled():
        longest = 128 if query.dtype == torch.bfloat16 else 0
    return dropout > 0 or query.shape[2] <= longest


AttentionInterface.register(_ATTENTION, _attention)
AttentionMaskInterface.register(_ATTENTION, mask_without_waiting)


def use_fast_dropout(backbone: PreTrainedModel) -> None:
    """Replace every dropout of a backbone and, where the family lets it be chosen, its attention."""
    for module in backbone.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, FastDropout(child.p))
    if backbone.get_correct_attn_implementation(None) == "sdpa":
        backbone.set_attn_implementation(_ATTENTION)
