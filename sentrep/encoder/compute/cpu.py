"""Training on a CPU: cheap dropout masks, and attention in plain products.

A mask makes four decisions from every random number, where torch draws one per element. Attention with dropout has no
fused kernel on a CPU: it is computed for some rows at a time, so that its probabilities fit the cache. On other
devices, and in compiled code, everything is torch's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_LEVELS = 2**16

_IN_CACHE = 2**18
"""Probabilities of attention that are computed at once: more leave the cache, which takes twice the time."""


def use_cheap_dropout(backbone: PreTrainedModel) -> None:
    """Give a backbone, in place, this dropout and attention; families with an attention of their own keep that."""
    for module in backbone.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, CheapDropout(child.p).train(child.training))
    if backbone.get_correct_attn_implementation(None) == "sdpa":
        backbone.set_attn_implementation("sentrep")


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: (b, heads, l, d) each → (b, l, heads, d).

    With dropout on a CPU softmax(QKᵀ·s + mask), dropout, V in plain products, some rows at a time; else torch's kernel.
    """
    on_cpu = query.device.type == "cpu" and not torch.compiler.is_compiling()
    special = arguments.get("position_bias") is not None or query.shape[1] != key.shape[1]
    causal = arguments.get("is_causal")
    if causal is None:  # sdpa's rule: without a mask a decoder's attention is causal
        causal = attention_mask is None and getattr(module, "is_causal", True)
    if not on_cpu or special or causal or dropout == 0:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **arguments
        )
    bias = query.new_zeros(1, 1, 1, 1) if attention_mask is None else attention_mask
    if bias.dtype == torch.bool:
        bias = query.new_zeros(bias.shape).masked_fill_(~bias, torch.finfo(query.dtype).min)
    query = query * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    rows = max(1, _IN_CACHE // (query.shape[1] * query.shape[2] * key.shape[2]))
    groups = (x.split(rows) for x in (query, key, value, bias.expand(len(query), -1, -1, -1)))
    return torch.cat([_products(dropout, *group) for group in zip(*groups, strict=True)]), None


def _products(dropout: float, query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2) + bias
    probabilities = scores.softmax(-1, dtype=value.dtype)  # computed in float32; 16 bits halve what backward holds
    return (drop(probabilities, dropout) @ value).transpose(1, 2)


def keep(x: Tensor, p: float) -> tuple[Tensor, float]:
    """A dropout mask for ``x``, and the factor of the kept values.

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


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout in training mode, of any shape; on a CPU the rate is exact to 2⁻¹⁶."""
    if x.device.type != "cpu" or not 0 < p < 1 or torch.compiler.is_compiling():
        return F.dropout(x, p)
    kept, scale = keep(x, p)
    return (x * kept).mul_(scale)


class CheapDropout(nn.Dropout):
    """`drop` as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape; the input itself in evaluation mode."""
        return drop(input, self.p) if self.training else input


AttentionInterface.register("sentrep", attention)
AttentionMaskInterface.register("sentrep", sdpa_mask)
