"""The attention of a pass, and dropout: which kernel, within which layout, with masks that are cheap on a CPU.

Attention is registered through transformers' public interface; families that do not use it keep their own. A mask makes
four decisions from every random number, where torch draws one per element; on other devices, and in compiled code,
dropout is torch's own. Nothing here makes a device wait.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sentrep.encoder.compute.layout import Packed, Read, as_bias

_LONG, _GROUP = 128, 1 << 21
"""From this length on, and above so many probabilities (b · heads · l²) of a layer, they are not kept for the backward
pass, at 9 bytes each in float32: it computes them again, a group of rows at a time. In the cache that is faster too; of
shorter sentences it is slower, and their probabilities are few."""

_LEVELS = 2**16

_NAMES = {False: "sentrep", True: "sentrep_cheap_dropout"}


def use_attention(backbone: PreTrainedModel, cheap: bool) -> bool:
    """Give a backbone the attention of this module; False where its family has another one and keeps it.

    Args:
        backbone: changed in place.
        cheap: whether plain products with cheap dropout may take the place of torch's kernel on a CPU.
    """
    if backbone.get_correct_attn_implementation(None) != "sdpa":
        return False
    backbone.set_attn_implementation(_NAMES[cheap])
    return True


def attention(
    cheap: bool,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    layout: Packed | None = None,
    read: Read | None = None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: (b, heads, l, d) each → (b, l, heads, d).

    A packed batch is one row of T tokens, and each token attends to its own sentence. Attention alone is computed on
    the padded batch: for short sentences it is a small part of a layer's work.

    Raises:
        NotImplementedError: for a packed batch with arguments that look beyond a sentence's tokens.
    """
    if layout is not None:
        if any(arguments.get(name) is not None for name in ("sliding_window", "position_bias", "softcap")):
            raise NotImplementedError("this attention looks at more than a sentence's tokens")
        attention_mask = layout.visible(query.dtype)
        arguments["is_causal"] = False  # sdpa would take a batch without padding, which has no mask, for a decoder's
        key, value = layout.unpack_heads(key), layout.unpack_heads(value)
    read = read if read is not None and module in read.parts else None
    if read is not None:  # in the last layer
        query = read.layout.take(query.transpose(1, 2), read.position).flatten(0, 1).unsqueeze(2)
        attention_mask = None if attention_mask is None else attention_mask[:, :, :1]  # every token sees the same ones
    elif layout is not None:
        query = layout.unpack_heads(query)
    mixed = _attend(cheap, module, query, key, value, attention_mask, dropout, scaling, **arguments)
    if read is not None:
        return read.layout.spread(mixed.squeeze(1), read.position), None
    return mixed if layout is None else layout.tokens.pack(mixed)[None], None


def _attend(
    cheap: bool,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None,
    dropout: float,
    scaling: float | None,
    **arguments: Any,
) -> Tensor:
    """torch's kernel, or softmax(QKᵀ·s + mask), dropout, V in plain products where they are faster.

    Within b padded sentences: query, key, value (b, heads, l, d), visible pairs (b, 1, l, l) bool, None for all, or a
    bias for torch's kernel → (b, l, heads, d).
    """
    causal = arguments.get("is_causal")
    if causal is None:  # sdpa's rule: without a mask a decoder's attention is causal
        causal = visible is None and getattr(module, "is_causal", True)
    biased = arguments.get("position_bias") is not None or (visible is not None and visible.dtype != torch.bool)
    special = causal or biased or key.shape[1] != query.shape[1]
    if not cheap or special or not _products_are_faster(key, dropout):
        return sdpa_attention_forward(
            module, query, key, value, visible, dropout=dropout, scaling=scaling, **arguments
        )[0]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    each = query.shape[1] * query.shape[2] ** 2
    if query.shape[2] < _LONG or len(query) * each <= _GROUP:
        return _products(scale, dropout, query, key, value, visible)
    rows = max(1, _GROUP // each)
    masks = itertools.repeat(None) if visible is None else visible.split(rows)
    groups = zip(query.split(rows), key.split(rows), value.split(rows), masks, strict=False)
    return torch.cat([checkpoint(_products, scale, dropout, *group, use_reentrant=False) for group in groups])


def _products(
    scale: float, dropout: float, query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None
) -> Tensor:
    scores = query * scale @ key.transpose(-1, -2)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    probabilities = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    if dropout > 0:
        probabilities = drop(probabilities, dropout)
    return (probabilities.to(value.dtype) @ value).transpose(1, 2).contiguous()


def _products_are_faster(key: Tensor, dropout: float) -> bool:
    """Measured on a CPU, the only place for them.

    With dropout torch leaves its fused kernel. In bfloat16 the kernel's backward pass takes 4 to 8 times as long as
    plain products; without a gradient products save a few per cent of `encode`, in long sentences nothing.
    """
    if key.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    longest = 48
    if torch.is_grad_enabled():
        longest = 128 if key.dtype == torch.bfloat16 else 0
    return dropout > 0 or key.shape[2] <= longest


def mask_of_pass(*arguments: Any, **keywords: Any) -> Tensor | None:
    """transformers' mask for sdpa; on a GPU as the bias that torch would make of it in every layer.

    There it is not left out where nothing is padded: to find out is to wait.
    """
    device, padding = torch.device(keywords.get("device", "cpu")), keywords.get("attention_mask")
    if device.type == "cpu" or padding is None:
        return sdpa_mask(*arguments, **keywords)
    keywords["allow_is_bidirectional_skip"] = False
    visible = sdpa_mask(*arguments, **keywords)
    return None if visible is None else as_bias(visible, _computed_in(device.type, keywords["dtype"]))


def _computed_in(device: str, dtype: torch.dtype) -> torch.dtype:
    """What attention sees of a backbone's ``dtype``."""
    cast = dtype != torch.float64 and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if cast else dtype


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


def keep_mask(x: Tensor, p: float) -> Tensor:
    """`keep` in the type of ``x``, already multiplied: 0 or 1 / (1 − p)."""
    kept, scale = keep(x, p)
    return kept.to(x.dtype).mul_(scale)


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout in training mode, of any shape; on a CPU the rate is exact to 2⁻¹⁶."""
    if x.device.type != "cpu" or not 0 < p < 1 or torch.compiler.is_compiling():
        return F.dropout(x, p)
    kept, scale = keep(x, p)
    return (x * kept).mul_(scale)


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


class CheapDropout(nn.Dropout):
    """`drop` as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape; the input itself in evaluation mode."""
        return drop(input, self.p) if self.training else input


for _cheap, _name in _NAMES.items():
    AttentionInterface.register(_name, functools.partial(attention, _cheap))
    AttentionMaskInterface.register(_name, mask_of_pass)
