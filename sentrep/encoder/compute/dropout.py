"""A backbone with cheap dropout on a CPU: `sentrep.functional.dropout`, and attention that keeps to matrix products.

torch draws one number per element there, on one thread, and its attention leaves the fused kernel; together they cost a
quarter of a training step. On other devices, and in compiled code, everything here is torch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from sentrep.encoder.compute.attention import attention, mask_without_waiting, within_sentences
from sentrep.encoder.compute.layouts import Layout
from sentrep.functional.dropout import dropout as drop

_ATTENTION = "sentrep_cpu"


class FastDropout(nn.Dropout):
    """``nn.Dropout`` as `sentrep.functional.dropout` has it."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape; the input itself in evaluation mode."""
        return drop(input, self.p) if self.training else input


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
        probabilities = drop(probabilities, dropout)
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
