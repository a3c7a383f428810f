"""The attention of a pass: which kernel, within which layout.

Registered through transformers' public interface; families that do not use it keep their own attention. Nothing here
makes a device wait.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sentrep.encoder.compute.layout import Packed, as_bias
from sentrep.functional.dropout import dropout as cheap_dropout

_LONG, _GROUP = 128, 1 << 21
"""From this length on, and above so many probabilities (b · heads · l²) of a layer, they are not kept for the backward
pass, at 9 bytes each in float32: it computes them again, a group of rows at a time. In the cache that is faster too; of
shorter sentences it is slower, and their probabilities are few."""

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
    **arguments: Any,
) -> tuple[Tensor, None]:
    """transformers' attention function: (b, heads, l, d) each → (b, l, heads, d), or one row of a packed batch.

    Raises:
        NotImplementedError: for a packed batch with arguments that look beyond a sentence's tokens.
    """
    kernel = functools.partial(_attend, cheap, module, dropout, scaling, arguments)
    if layout is None:
        return kernel(query, key, value, attention_mask), None
    if any(arguments.get(name) is not None for name in ("sliding_window", "position_bias", "softcap")):
        raise NotImplementedError("this attention looks at more than a sentence's tokens")
    arguments["is_causal"] = False  # sdpa would take a batch without padding, which has no mask, for a decoder's
    return layout.attend(query, key, value, kernel, dropout, scaling), None


def _attend(
    cheap: bool,
    module: nn.Module,
    dropout: float,
    scaling: float | None,
    arguments: dict[str, Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None,
) -> Tensor:
    """A `Kernel`: torch's, or softmax(QKᵀ·s + mask), dropout, V in plain products where that is faster."""
    causal = arguments.get("is_causal")
    if causal is None:  # sdpa's rule: without a mask a decoder's attention is causal
        causal = visible is None and getattr(module, "is_causal", True)
    special = causal or arguments.get("position_bias") is not None or key.shape[1] != query.shape[1]
    if not cheap or special or not _products_are_faster(query, dropout):
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
        probabilities = cheap_dropout(probabilities, dropout)
    return (probabilities.to(value.dtype) @ value).transpose(1, 2).contiguous()


def _products_are_faster(query: Tensor, dropout: float) -> bool:
    """Measured on a CPU, the only place for them.

    With dropout torch leaves its fused kernel. In bfloat16 the kernel's backward pass takes 4 to 8 times as long as
    plain products; without a gradient products save a few per cent of `encode`, in long sentences nothing.
    """
    if query.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    longest = 48
    if torch.is_grad_enabled():
        longest = 128 if query.dtype == torch.bfloat16 else 0
    return dropout > 0 or query.shape[2] <= longest


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


for _cheap, _name in _NAMES.items():
    AttentionInterface.register(_name, functools.partial(attention, _cheap))
    AttentionMaskInterface.register(_name, mask_of_pass)
