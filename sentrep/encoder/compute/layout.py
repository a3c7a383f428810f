"""How a batch lies in memory: padded sentences side by side, or their real tokens in one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import PretrainedConfig

from sentrep.types import TokenBatch

PACKABLE = frozenset({"albert", "bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta"})
"""Families that compute every token by itself but for the attention, which they take from transformers' interface, and
that take positions as an argument. ModernBERT: where no layer's attention is local."""

# Families whose position table starts after the padding index, so that two of its rows are never positions.
OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "data2vec-text", "longformer"}
)


@dataclass(frozen=True)
class RealTokens:
    """Where the T real tokens of a padded batch stand."""

    mask: Tensor
    """(B, L) bool."""
    index: Tensor
    """(T,) their positions in the batch, counted row by row."""

    @classmethod
    def of(cls, attention_mask: Tensor, count: int | None = None) -> RealTokens:
        """Find them.

        Args:
            attention_mask: (B, L), not 0 on real tokens.
            count: T, where the host knows it; otherwise an accelerator is asked, which waits for it.
        """
        mask = attention_mask.bool()
        flat = mask.flatten()
        if count is None or flat.device.type == "cpu":
            return cls(mask, flat.nonzero().flatten())
        return cls(mask, flat.int().argsort(descending=True, stable=True)[:count])

    def pack(self, x: Tensor) -> Tensor:
        """(B, L, ...) → (T, ...)."""
        return x.flatten(0, 1).index_select(0, self.index)

    def unpack(self, rows: Tensor) -> Tensor:
        """(T, ...) → (B, L, ...), zero on padding."""
        padded = rows.new_zeros(self.mask.numel(), *rows.shape[1:]).index_copy_(0, self.index, rows)
        return padded.view(*self.mask.shape, *rows.shape[1:])


@dataclass(frozen=True)
class Padded:
    """The padded batch (B, L)."""

    visible: Tensor
    """(B, L), the tokens that every token of their sentence attends to."""

    def inputs(self, tokens: TokenBatch, words: Tensor | None) -> dict[str, Any]:
        """Arguments of the backbone: the tokens, or their word embeddings (B, L, W) if these are given."""
        source = {"input_ids": tokens.input_ids} if words is None else {"inputs_embeds": words}
        return {**source, "attention_mask": self.visible}

    def take(self, states: Tensor, position: Tensor | None) -> Tensor:
        """The states of one token per sentence, at ``position`` (B,) or the first: (B, 1, ...)."""
        return token_states(states, position).unsqueeze(1)

    def spread(self, rows: Tensor, position: Tensor | None) -> Tensor:
        """(B, ...) → (B, L, ...), of which `take` gives the rows back."""
        return rows.unsqueeze(1).expand(-1, self.visible.shape[1], *rows.shape[1:])

    def put(self, states: Tensor, position: Tensor | None, taken: Tensor) -> Tensor:
        """A copy of the states that has ``taken`` (B, 1, H) at the places of `take`."""
        if position is None:
            return torch.cat([taken, states[:, 1:]], 1)
        return states.scatter(1, position[:, None, None].expand_as(taken), taken)

    def restore(self, states: Tensor) -> Tensor:
        """The backbone's states as (B, L, H)."""
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
        """See `Padded.inputs`; the backbone's states then have the shape (1, T, H)."""
        real = self.tokens
        source = {"input_ids": tokens.input_ids} if words is None else {"inputs_embeds": words}
        source = {name: real.pack(values)[None] for name, values in source.items()}
        position = real.index % tokens.input_ids.shape[1] + self.first_position
        return {**source, "position_ids": position[None], "layout": self}

    def visible(self, dtype: torch.dtype) -> Tensor:
        """(B, 1, L, L): rows of padding attend to their sentence, as in a padded batch; nobody reads them."""
        width = self.tokens.mask.shape[1]
        visible = self.tokens.mask[:, None, None, :].expand(-1, 1, width, -1)
        if visible.device.type == "cpu":
            return visible
        if dtype not in self.biases:  # once a pass, not once a layer
            self.biases[dtype] = as_bias(visible, dtype)
        return self.biases[dtype]

    def unpack_heads(self, x: Tensor) -> Tensor:
        """(1, heads, T, d) → (B, heads, L, d)."""
        rows = x.squeeze(0).transpose(0, 1).contiguous()  # not x[0], whose gradient is a tensor of zeros to copy into
        return self.tokens.unpack(rows).transpose(1, 2)

    def take(self, states: Tensor, position: Tensor | None) -> Tensor:
        """See `Padded.take`: (1, B, ...)."""
        return states[:, self._places(position)]

    def spread(self, rows: Tensor, position: Tensor | None) -> Tensor:
        """See `Padded.spread`: (1, T, ...)."""
        room = rows.new_zeros(len(self.tokens.index), *rows.shape[1:])
        return room.index_copy_(0, self._places(position).long(), rows)[None]

    def put(self, states: Tensor, position: Tensor | None, taken: Tensor) -> Tensor:
        """See `Padded.put`; ``taken`` is (1, B, H)."""
        return states.index_copy(1, self._places(position).long(), taken)

    def _places(self, position: Tensor | None) -> Tensor:
        """(B,) where one token per sentence stands among the real ones."""
        starts = self.boundaries[:-1]
        return starts if position is None else starts + position

    def restore(self, states: Tensor) -> Tensor:
        """See `Padded.restore`; zero on padding."""
        return self.tokens.unpack(states[0])


Layout = Padded | Packed


@dataclass(frozen=True)
class Read:
    """The token of each sentence that a pass reads of the last layer (`sentrep.encoder.compute.plan.LastLayer`)."""

    parts: tuple[nn.Module, ...]
    """The layer, its attention, and what runs before and after the attention."""
    layout: Layout
    position: Tensor | None
    """(B,) of the token; None for the first."""
    given: list[Any] = field(default_factory=list)
    """The layer's arguments."""


def as_bias(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias that torch's attention makes of a bool mask: 0 for true, -∞ for false."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, -torch.inf)


def can_pack(config: Any) -> bool:
    """Whether a family is one that `Packed` gives the same vectors for, tests say so, as the padded batch."""
    local = getattr(config, "layer_types", None) or ()
    causal = getattr(config, "is_decoder", False)
    return config.model_type in PACKABLE and "sliding_attention" not in local and not causal


def token_states(states: Tensor, position: Tensor | None) -> Tensor:
    """(B, L, H) to (B, H), the token at each sentence's ``position`` (B,), the first without one."""
    if position is None:
        return states[:, 0]
    # len(states) would fix the number of sentences of an exported graph
    return states[torch.arange(states.shape[0], device=states.device), position]


def position_limit(config: PretrainedConfig) -> int | None:
    """The longest sequence that the position table holds (None for models without one)."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions is None or positions < 1:  # how XLNet says that it has none
        return None
    return positions - 2 if config.model_type in OFFSET_POSITIONS else positions
