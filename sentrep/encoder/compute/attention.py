"""Attention that never makes a device wait, and that takes a batch whose tokens lie in a single row.

Both are registered through transformers' public interface; families that do not use it keep their own attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sentrep.encoder.compute.layouts import Layout

_ATTENTION = "sentrep"


def use_own_attention(backbone: PreTrainedModel) -> bool:
    """Give a backbone the attention of this module; False where its family has another one and keeps it."""
    if backbone.get_correct_attn_implementation(None) != "sdpa":
        return False
    backbone.set_attn_implementation(_ATTENTION)
    return True


def attention(
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
    """transformers' attention function: sdpa, or within the sentences of a single row."""
    if packing is not None:
        return within_sentences(attention, module, query, key, value, packing, dropout, scaling, **arguments)
    return sdpa_attention_forward(
        module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **arguments
    )


def within_sentences(
    function: Callable[..., tuple[Tensor, Tensor | None]],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: Layout,
    dropout: float,
    scaling: float | None,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """Attention of (1, heads, T, d) by a layout, which calls ``function``, of transformers' kind, on padded sentences.

    Raises:
        NotImplementedError: for arguments that no layout knows of.
    """
    if any(arguments.get(name) is not None for name in ("sliding_window", "position_bias", "softcap")):
        raise NotImplementedError("this attention looks at more than a sentence's tokens")
    arguments["is_causal"] = False  # sdpa would take a batch without padding, which has no mask, for a decoder's

    def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
        return function(module, q, k, v, visible, dropout=dropout, scaling=scaling, **arguments)[0]

    q, k, v = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
    return layout.attend(q, k, v, attend, dropout, scaling)[None], None


def mask_without_waiting(*arguments: Any, **keywords: Any) -> Tensor | None:
    """transformers' mask for sdpa, which on a GPU is not left out where nothing is padded: to find out is to wait."""
    device, padding = torch.device(keywords.get("device", "cpu")), keywords.get("attention_mask")
    if device.type != "cpu" and padding is not None:
        keywords["allow_is_bidirectional_skip"] = False
    return sdpa_mask(*arguments, **keywords)


AttentionInterface.register(_ATTENTION, attention)
AttentionMaskInterface.register(_ATTENTION, mask_without_waiting)
