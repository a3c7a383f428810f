"""Batches whose tokens lie in a single row, over which everything runs once that does not look at other tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from sentrep.functional.packing import RealTokens

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Attention within b padded sentences: query, key, value (b, heads, l, d), what they may look at (b, 1, l, l) bool or
None for everything → (b, l, heads, d)."""


class Layout(Protocol):
    """How B sentences make one row of T tokens."""

    @property
    def tokens(self) -> RealTokens:
        """Where each token stands in the padded batch (B, L)."""

    @property
    def starts(self) -> Tensor:
        """(B,) where each sentence begins in the row."""

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, dropout: float, scaling: float | None
    ) -> Tensor:
        """Attention of (T, heads, d) within each sentence, by ``attend`` or something faster that does the same."""


@dataclass(frozen=True)
class Packing:
    """The real tokens alone."""

    tokens: RealTokens
    boundaries: Tensor
    """(B + 1,) int32, where each sentence begins, and T."""

    @classmethod
    def of(cls, attention_mask: Tensor, count: int | None) -> Packing:
        """See `RealTokens.of`."""
        lengths = attention_mask.sum(1, dtype=torch.int32)
        return cls(
            RealTokens.of(attention_mask, count), nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
        )

    @property
    def starts(self) -> Tensor:
        """See `Layout`."""
        return self.boundaries[:-1]

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, dropout: float, scaling: float | None
    ) -> Tensor:
        """See `Layout`.

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
        return self.tokens.pack(attend(q, k, v, _visible(self.tokens.mask)))


def has_kernel(query: Tensor, dropout: float) -> bool:
    """Whether torch has a kernel for sequences of several lengths that can do this."""
    if dropout or not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16):
        return False
    try:
        from torch.nn.attention.varlen import varlen_attn  # noqa: F401
    except ImportError:  # before torch 2.10
        return False
    return True


@dataclass(frozen=True)
class LengthGroups:
    """Sentences of like length padded to a rectangle, one rectangle after the other.

    Attention takes each rectangle as it lies, without copying it; little of the row is padding.
    """

    tokens: RealTokens
    """The padding of the rectangles counts as tokens here."""
    starts: Tensor
    """See `Layout`."""
    rectangles: list[tuple[int, int, Tensor | None]]
    """Rows, width, and (rows, 1, width, width) bool, what is real; None where all is."""

    @classmethod
    def of(cls, attention_mask: Tensor, groups: int) -> LengthGroups:
        """Sort the sentences of (B, L) into so many groups; reading the lengths makes an accelerator wait."""
        mask = attention_mask.bool()
        positions = torch.arange(mask.numel(), device=mask.device).view_as(mask)
        starts = torch.empty_like(positions[:, 0])
        index: list[Tensor] = []
        rectangles = []
        done = 0
        for rows, longest, shortest in by_length(attention_mask, groups):
            height = len(rows)
            starts[rows] = torch.arange(done, done + height * longest, longest, device=mask.device)
            index.append(positions[rows, :longest].flatten())
            visible = None if shortest == longest else _visible(mask[rows, :longest])
            rectangles.append((height, longest, visible))
            done += height * longest
        return cls(RealTokens(mask, torch.cat(index)), starts, rectangles)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, attend: Attend, dropout: float, scaling: float | None
    ) -> Tensor:
        """See `Layout`."""
        sizes = [height * width for height, width, _ in self.rectangles]
        parts = zip(self.rectangles, *(x.split(sizes) for x in (query, key, value)), strict=True)
        attended = []
        for (height, width, visible), *heads in parts:
            q, k, v = (x.unflatten(0, (height, width)).transpose(1, 2) for x in heads)
            attended.append(attend(q, k, v, visible).flatten(0, 1))
        return torch.cat(attended)


def by_length(attention_mask: Tensor, groups: int) -> list[tuple[Tensor, int, int]]:
    """The rows of (B, L) in groups of like length, the longest first; of each, its largest and smallest length."""
    lengths = attention_mask.sum(1)
    order = lengths.argsort(stable=True, descending=True)
    ordered = lengths[order].tolist()
    found, done = [], 0
    for rows in order.tensor_split(groups):
        found.append((rows, ordered[done], ordered[done + len(rows) - 1]))
        done += len(rows)
    return found


def _visible(mask: Tensor) -> Tensor:
    """(b, l) bool to (b, 1, l, l): every token may look at the real ones of its sentence."""
    return mask[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
