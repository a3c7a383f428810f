"""How a batch lies in memory: sentences packed into rows of one width, or one sentence a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from sentrep.types import TokenBatch

PACKABLE = frozenset(
    {"albert", "bert", "camembert", "distilbert", "electra", "modernbert", "mpnet", "roberta", "xlm-roberta"}
)
"""Families that take positions and a ready bias as arguments, and in which a token sees the others by attention alone.
ModernBERT: where no layer's attention is local."""

# Families whose position table starts after the padding index, so that two of its rows are never positions.
OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "data2vec-text", "longformer"}
)


@dataclass(frozen=True)
class PackedRows:
    """The tokens of B sentences in R rows of L tokens, built on the host: no question to the device."""

    source: Tensor | None
    """(R, L) int64, which token of the padded batch (B, l), counted row by row; None where the rows are that batch."""
    position_ids: Tensor
    """(R, L) int64; each sentence counts from its own start."""
    segments: Tensor
    """(R, L) int64, the number of the sentence within its row; -1 on padding."""
    places: Tensor | None
    """(B, l) int64, flat position in the rows of every token of every sentence; its first one's on padding. None where
    the rows are the padded batch."""
    visible: Tensor
    """(B, l), not 0 on the tokens that a sentence's tokens attend to; never 0 on the first."""
    is_full: bool = False
    """Whether the host knows that the rows are the padded batch, without padding."""

    @classmethod
    def pack(cls, tokens: TokenBatch, width: int, first_position: int, compiled: bool = False) -> PackedRows:
        """Pack a batch whose lengths the host knows.

        Args:
            tokens: (B, l), with `TokenBatch.lengths`.
            width: L, at least the longest sentence.
            first_position: number of a sentence's first position.
            compiled: whether to round the number of rows up, so that compiled code sees few shapes.
        """
        assert tokens.lengths is not None
        lengths = np.maximum(tokens.lengths, 1)  # a sentence without a token still has a place to read
        starts, count = best_fit(lengths.tolist(), width)
        count = rounded_rows(count) if compiled else count
        column = np.arange(tokens.input_ids.shape[1])
        real = column < lengths[:, None]
        places = starts[:, None] + np.where(real, column, 0)
        rows = np.zeros((3, count * width), np.int64)  # source, positions, segments
        rows[2] = -1
        rows[0, places[real]] = np.flatnonzero(real)
        rows[1, places[real]] = np.broadcast_to(column, real.shape)[real]
        rows[2, places[real]] = np.repeat(np.arange(len(lengths)), lengths)
        rows[1] += first_position
        moved = to_device(torch.from_numpy(np.concatenate([rows.ravel(), places.ravel()])), tokens.input_ids.device)
        source, positions, segments = moved[: rows.size].view(3, count, width)
        return cls(
            source, positions, segments, moved[rows.size :].view(places.shape), _with_first(tokens.attention_mask)
        )

    @classmethod
    def one_each(cls, tokens: TokenBatch, first_position: int, visible: Tensor | None = None) -> PackedRows:
        """The padded batch (B, l) itself, each sentence in a row of its own.

        Args:
            tokens: (B, l).
            first_position: number of a sentence's first position.
            visible: (B, l), 1 on the tokens that a sentence's tokens attend to; None for its real tokens.
        """
        mask = tokens.attention_mask if visible is None else visible
        position = torch.arange(first_position, first_position + mask.shape[1], device=mask.device)
        lengths = None if visible is not None or torch.compiler.is_compiling() else tokens.lengths
        full = lengths is not None and int(lengths.min()) == mask.shape[1]
        return cls(None, position.expand_as(mask), mask.long() - 1, None, _with_first(mask), full)

    def of_tokens(self, x: Tensor) -> Tensor:
        """Values of the tokens of the padded batch, (B, l, ...), in rows: (R, L, ...)."""
        return x if self.source is None else x.flatten(0, 1)[self.source]

    def of_sentences(self, states: Tensor) -> Tensor:
        """States in rows, (R, L, ...), by sentence: (B, l, ...); of no meaning on padding."""
        return states if self.places is None else states.flatten(0, 1)[self.places]

    def one_token(self, states: Tensor, position: Tensor | None) -> Tensor:
        """The states (B, ...) of the token at each sentence's ``position`` (B,), the first one without."""
        return states.flatten(0, 1)[self._places(position)]

    def with_one_token(self, states: Tensor, position: Tensor | None, token: Tensor) -> Tensor:
        """A copy of the states that has ``token`` (B, H) in the places of `one_token`."""
        return states.flatten(0, 1).index_copy(0, self._places(position), token.to(states.dtype)).view_as(states)

    def _places(self, position: Tensor | None) -> Tensor:
        """(B,) flat positions of one token of each sentence."""
        count, width = self.visible.shape
        ones = torch.arange(0, count * width, width, device=self.visible.device)
        starts = ones if self.places is None else self.places[:, 0]
        return starts if position is None else starts + position

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """(R, 1, L, L), what attention adds to its scores: 0 within a sentence, -∞ elsewhere; None for 0 everywhere."""
        if self.is_full:
            return None
        apart = self.segments[:, None, :, None] != self.segments[:, None, None, :]
        return torch.zeros(apart.shape, dtype=dtype, device=apart.device).masked_fill_(apart, -torch.inf)


def best_fit(lengths: Sequence[int], width: int) -> tuple[NDArray[np.int64], int]:
    """Put sentences into rows, the longest first, each into the fullest row that still has room (best fit decreasing).

    Args:
        lengths: tokens of each of B sentences, from 1 to ``width``.
        width: tokens of a row.

    Returns:
        (B,) where each sentence starts, counted over all rows, and the number of rows.

    Examples:
        >>> starts, rows = best_fit([3, 5, 4], 8)
        >>> starts.tolist(), rows
        ([5, 0, 8], 2)
    """
    starts = np.zeros(len(lengths), np.int64)
    with_room: list[list[int]] = [[] for _ in range(width)]  # rows by their free room, unless they are empty
    count = 0
    for sentence in sorted(range(len(lengths)), key=lambda sentence: -lengths[sentence]):
        length = lengths[sentence]
        room = next(filter(with_room.__getitem__, range(length, width)), width)
        if room < width:
            row = with_room[room].pop()
        else:
            row, count = count, count + 1
        starts[sentence] = (row + 1) * width - room
        with_room[room - length].append(row)
    return starts, count


def rounded_rows(count: int) -> int:
    """The next number of rows that compiled code may see: a multiple of a power of two near the root of ``count``.

    The number of rows of a batch varies by its root, too, so that an epoch has two to four sizes.

    Examples:
        >>> [rounded_rows(count) for count in (3, 27, 225)]
        [4, 28, 240]
    """
    step = 2 ** round(math.log2(count) / 2)
    return -(-count // step) * step


def row_width(longest: int, device: torch.device) -> int:
    """L: the smallest multiple of 32 that holds the longest sequence, at least 64 on a CPU and 128 elsewhere."""
    return max(64 if device.type == "cpu" else 128, -(-longest // 32) * 32)


def can_pack(config: Any, pad_token_id: int) -> bool:
    """Whether packed rows give a family's vectors; tests compare them with one sentence a row.

    Args:
        config: of the backbone.
        pad_token_id: of the tokenizer. Families like RoBERTa give the padding of their configuration no position.
    """
    local = getattr(config, "layer_types", None) or ()
    causal = getattr(config, "is_decoder", False)
    counts = config.model_type not in OFFSET_POSITIONS or _padding(config) == pad_token_id
    return config.model_type in PACKABLE and "sliding_attention" not in local and not causal and counts


def first_position(config: Any) -> int:
    """Number of a sentence's first position: families like RoBERTa start after the index of padding."""
    return _padding(config) + 1 if config.model_type in OFFSET_POSITIONS else 0


def _padding(config: Any) -> int:
    """The token id to which the family gives no position; MPNet's does not depend on its configuration."""
    return 1 if config.model_type == "mpnet" else config.pad_token_id


def token_states(states: Tensor, position: Tensor | None) -> Tensor:
    """(B, L, H) to (B, H), the token at each sentence's ``position`` (B,), the first one without."""
    if position is None:
        return states[:, 0]
    # len(states) would fix the number of sentences of an exported graph
    return states[torch.arange(states.shape[0], device=states.device), position]


def _with_first(mask: Tensor) -> Tensor:
    """The mask (B, l) with 1 on the first token: an attention over nothing would be NaN."""
    return F.pad(mask[:, 1:], (1, 0), value=1)


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A host's tensor on a device; the copy to a GPU does not wait for earlier work."""
    pinned = tensor.pin_memory() if torch.device(device).type == "cuda" else tensor
    return pinned.to(device, non_blocking=True)
