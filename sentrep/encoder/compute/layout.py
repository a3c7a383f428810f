"""How a batch lies in memory: padded sentences side by side, or their real tokens in one row."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from sentrep.functional.packing import RealTokens
from sentrep.types import TokenBatch

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Attention within b padded sentences: query, key, value (b, heads, l, d), what they may look at (b, 1, l, l) bool or
None for everything → (b, l, heads, d)."""

PACKABLE = frozenset({"albert", "bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta"})
"""Families that compute every token by itself but for the attention, which they take from transformers' interface, and
that take positions as an argument. ModernBERT: where no layer's attention is local."""

# Families whose position table starts after the padding index, so that two of its rows are never positions.
OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "data2vec-text", "longformer"}
)


class Layout(Protocol):
    """What a pass asks of a batch's layout."""

    def inputs(self, tokens: TokenBatch, words: Tensor | None) -> dict[str, Any]:
        """What the backbone is called with: the tokens, or their word embeddings (B, L, W) where they are given."""

    def take(self, states: Tensor, position: Tensor | None) -> Tensor:
        """The states of one token per sentence, B rows of H in three dimensions: at ``position`` (B,), or the first."""

    def restore(self, states: Tensor) -> Tensor:
        """The backbone's states as (B, L, H)."""


@dataclass(frozen=True)
class Padded:
    """The padded batch (B, L)."""

    visible: Tensor
    """(B, L), the tokens that every token of their sentence attends to."""

    def inputs(self, tokens: TokenBatch, words: Tensor | None) -> dict[str, Any]:
        """See `Layout`."""
        source = {"input_ids": tokens.input_ids} if words is None else {"inputs_embeds": words}
        return {**source, "attention_mask": self.visible}

    def take(self, states: Tensor, position: Tensor | None) -> Tensor:
        """See `Layout`: (B, 1, H)."""
        return token_states(states, position).unsqueeze(1)

    def restore(self, states: Tensor) -> Tensor:
        """See `Layout`."""
        return states


@dataclass(frozen=True)
class Packed:
    """The T real tokens alone, sentence after sentence: no padding is computed but in the attention."""

    tokens: RealTokens
    boundaries: Tensor
    """(B + 1,) int32, where each sentence begins, and T."""
    first_position: int
    """Number of a sentence's first position."""
    biases: dict[torch.dtype, Tensor] = field(default_factory=dict, compare=False, repr=False)
    """What `as_bias` has made of the mask."""

    @classmethod
    def of(cls, tokens: TokenBatch, config: Any) -> Packed:
        """The layout of a batch for a backbone of this configuration."""
        lengths = tokens.attention_mask.sum(1, dtype=torch.int32)
        real = RealTokens.of(tokens.attention_mask, tokens.real_tokens)
        # RoBERTa and its kin count from behind the position of padding
        first = config.pad_token_id + 1 if config.model_type in OFFSET_POSITIONS else 0
        return cls(real, pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)), first)

    def inputs(self, tokens: TokenBatch, words: Tensor | None) -> dict[str, Any]:
        """See `Layout`; the backbone's states then have the shape (1, T, H)."""
        real = self.tokens
        source = {"input_ids": real.pack(tokens.input_ids)[None]}
        if words is not None:
            source = {"inputs_embeds": real.pack(words)[None]}
        position = real.index % tokens.input_ids.shape[1] + self.first_position
        return {**source, "position_ids": position[None], "layout": self}

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, kernel: Kernel, dropout: float, scaling: float | None
    ) -> Tensor:
        """Attention of (1, heads, T, d) within each sentence → (1, T, heads, d).

        With `torch.nn.attention.varlen` on a GPU in half precision without dropout, which it does not have. Otherwise
        attention alone, a small part of a layer's work for short sentences, is computed on the padded batch.
        """
        # not x[0], whose gradient is a tensor of zeros to copy into
        query, key, value = (x.squeeze(0).transpose(0, 1).contiguous() for x in (query, key, value))
        width = self.tokens.mask.shape[1]
        if _has_kernel(query, dropout):
            from torch.nn.attention.varlen import varlen_attn

            ends = self.boundaries
            found: Any = varlen_attn(query, key, value, ends, ends, width, width, scale=scaling)
            return found[None]
        q, k, v = (self.tokens.unpack(x).transpose(1, 2) for x in (query, key, value))
        return self.tokens.pack(kernel(q, k, v, self._visible(query.dtype)))[None]

    def _visible(self, dtype: torch.dtype) -> Tensor:
        """(B, 1, L, L): rows of padding attend to their sentence, as in a padded batch; nobody reads them."""
        width = self.tokens.mask.shape[1]
        visible = self.tokens.mask[:, None, None, :].expand(-1, 1, width, -1)
        if visible.device.type == "cpu":
            return visible
        if dtype not in self.biases:  # once a pass, not once a layer
            self.biases[dtype] = as_bias(visible, dtype)
        return self.biases[dtype]

    def take(self, states: Tensor, position: Tensor | None) -> Tensor:
        """See `Layout`: (1, B, H)."""
        starts = self.boundaries[:-1]
        return states[:, starts if position is None else starts + position]

    def restore(self, states: Tensor) -> Tensor:
        """See `Layout`; zero on padding."""
        return self.tokens.unpack(states[0])


def as_bias(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """What torch's attention adds to the scores for a bool mask: 0 where it is true, else -∞."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, -torch.inf)


def can_pack(config: Any) -> bool:
    """Whether a family is one that `Packed` gives the same vectors for, tests say so, as the padded batch."""
    local = getattr(config, "layer_types", None) or ()
    return config.model_type in PACKABLE and "sliding_attention" not in local


def token_states(states: Tensor, position: Tensor | None) -> Tensor:
    """(B, L, H) to (B, H), the token at each sentence's ``position`` (B,), the first without one."""
    if position is None:
        return states[:, 0]
    # len(states) would fix the number of sentences of an exported graph
    return states[torch.arange(states.shape[0], device=states.device), position]


def _has_kernel(query: Tensor, dropout: float) -> bool:
    """Whether torch has a kernel for sequences of several lengths that can do this: (T, heads, d)."""
    if dropout or not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16):
        return False
    if query.shape[-1] % 8 or query.shape[-1] > 256 or torch.cuda.get_device_capability(query.device) < (8, 0):
        return False  # what FlashAttention, which it is, can do
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # before torch 2.10
        return False
    return "scale" in inspect.signature(varlen_attn).parameters  # not in torch 2.10
