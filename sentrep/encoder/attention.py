"""Attention that never makes a device wait, and that takes a batch whose padding was left out.

Both are registered through transformers' public interface; families that do not use it keep their own attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from sentrep.functional.packing import RealTokens

_ATTENTION = "sentrep"


@dataclass(frozen=True)
class Packing:
    """B sentences one after the other as one row of T tokens."""

    tokens: RealTokens
    """Where each token stands in the padded batch (B, L)."""
    boundaries: Tensor
    """(B + 1,) int32, where each sentence begins, and T."""

    @classmethod
    def of(cls, attention_mask: Tensor, count: int | None) -> Packing:
        """See `RealTokens.of`."""
        lengths = attention_mask.sum(1, dtype=torch.int32)
        return cls(
            RealTokens.of(attention_mask, count), nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, dropout: float, scaling: float | None) -> Tensor:
        """Attention of (T, heads, d) within each sentence.

        With `torch.nn.attention.varlen` on a GPU in half precision without dropout, which it does not have. Otherwise
        attention alone, a small part of a layer's work for short sentences, is computed on the padded batch.
        """
        width = self.tokens.mask.shape[1]
        if has_kernel(query, dropout):
            from torch.nn.attention.varlen import varlen_attn

            ends = self.boundaries
            return varlen_attn(query, key, value, ends, ends, width, width, scale=scaling)  # type: ignore[return-value]
        q, k, v = (self.tokens.unpack(x).transpose(1, 2) for x in (query, key, value))
        # rows of padding attend to the real tokens of their sentence, as in a padded batch; nobody reads them
        mask = self.tokens.mask[:, None, None, :].expand(-1, 1, width, -1)
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)
        return self.tokens.pack(out.transpose(1, 2))


def has_kernel(query: Tensor, dropout: float) -> bool:
    """Whether torch has a kernel for sequences of several lengths that can do this."""
    if dropout or not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16):
        return False
    try:
        from torch.nn.attention.varlen import varlen_attn  # noqa: F401
    except ImportError:  # before torch 2.10
        return False
    return True


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
    packing: Packing | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor | None]:
    """transformers' attention function: sdpa, or within the sentences of a packed row."""
    if packing is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **arguments
        )
    if any(arguments.get(name) is not None for name in ("sliding_window", "position_bias", "softcap")):
        raise NotImplementedError("this attention looks at more than a sentence's tokens")
    q, k, v = (x[0].transpose(0, 1).contiguous() for x in (query, key, value))
    return packing.attend(q, k, v, dropout, scaling)[None], None


def mask_without_waiting(*arguments: Any, **keywords: Any) -> Tensor | None:
    """transformers' mask for sdpa, which on a GPU is not left out where nothing is padded: to find out is to wait."""
    device, padding = torch.device(keywords.get("device", "cpu")), keywords.get("attention_mask")
    if device.type != "cpu" and padding is not None:
        keywords["allow_is_bidirectional_skip"] = False
    return sdpa_mask(*arguments, **keywords)


AttentionInterface.register(_ATTENTION, attention)
AttentionMaskInterface.register(_ATTENTION, mask_without_waiting)
