"""Prompts around sentences, and the vector that one has of its own, without a text (PromptBERT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep.encoder.compute.rows import PackedRows, to_device
from sentrep.types import TokenBatch

Pool = Callable[[TokenBatch, Tensor | None, PackedRows, bool, bool], tuple[Tensor, Any]]
"""`Pass._pooled` of `plan.py`: pooled vectors (B, H) of tokens, and the states that they come from."""


@dataclass(frozen=True)
class Template:
    """A prompt as token ids."""

    prefix: list[int]
    suffix: list[int]
    pad_token_id: int
    mask_index: int | None = None
    """Where the mask stands: from the start (≥ 0) or from the end of the real tokens (< 0)."""

    def enclose(self, tokens: TokenBatch, frame: tuple[int, int], number: int) -> TokenBatch:
        """The same sentences (B, L) in this prompt.

        Args:
            tokens: in another prompt.
            frame: how many tokens of that one stand before and after a sentence's own.
            number: of this one among the encoder's (`TokenBatch.prompt`).

        Returns:
            (B, L'), whose width, and number of real tokens, differ by a constant.
        """
        more = len(self.prefix) + len(self.suffix) - sum(frame)
        width = tokens.input_ids.shape[1] + more
        source = torch.arange(width, device=tokens.input_ids.device) - len(self.prefix) + frame[0]
        text = tokens.input_ids[:, source.clamp(0, tokens.input_ids.shape[1] - 1)]
        found, _ = self._around(tokens.attention_mask.sum(1) - sum(frame), width, text)
        lengths = None if tokens.lengths is None else tokens.lengths + more
        numbers = torch.full_like(found.input_ids[:, 0], number)
        return TokenBatch(found.input_ids, found.attention_mask, lengths, numbers)

    def vectors(self, pool: Pool, tokens: TokenBatch, number: int, first_position: int, every_length: bool) -> Tensor:
        """(B, H): the prompt's vector with nothing in its slot, its words at the positions that each sentence gives it.

        A text in the slot that no token can see leaves exactly that, whatever kind of positions the backbone has. Only
        the text's length matters, so each length is run once.

        Args:
            pool: pooled vectors of tokens.
            tokens: the batch (B, L).
            number: of this prompt (`TokenBatch.prompt`); what sentences in others get means nothing.
            first_position: number of a sentence's first position.
            every_length: run all lengths that the batch has room for, which asks the device nothing and has one shape;
                else those that occur.
        """
        lengths = tokens.attention_mask.sum(1) - len(self.prefix) - len(self.suffix)
        if tokens.prompt is not None:
            lengths = lengths.where(tokens.prompt == number, 0)
        width = tokens.input_ids.shape[1]
        room = width - len(self.prefix) - len(self.suffix)
        if every_length:
            run_lengths, place = torch.arange(room + 1, device=lengths.device), lengths
        else:
            run_lengths, place = lengths.unique(return_inverse=True)
        around, visible = self._around(run_lengths, width)
        if tokens.prompt is not None:
            around.prompt = torch.full_like(around.input_ids[:, 0], number)
        found, _ = pool(around, None, PackedRows.one_each(around, first_position, visible), True, False)
        return found[place]

    def _around(self, lengths: Tensor, width: int, text: Tensor | None = None) -> tuple[TokenBatch, Tensor]:
        """The prompt around a hidden text of each of K lengths, (K, width), and the mask of the visible tokens."""
        position = torch.arange(width, device=lengths.device)
        start = len(self.prefix)
        stop = start + lengths[:, None]
        after = to_device(torch.tensor(self.suffix), lengths.device)
        suffix = after[(position - stop).clamp(0, len(self.suffix) - 1)]
        if text is None:  # any token but padding, from which some backbones count their positions
            text = torch.full_like(suffix, self.suffix[-1])
        before = to_device(torch.tensor(self.prefix), lengths.device)
        prefix = F.pad(before, (0, width - start)).expand_as(suffix)
        end = stop + len(self.suffix)
        rows = torch.where(position < start, prefix, torch.where(position < stop, text, suffix))
        rows = torch.where(position < end, rows, self.pad_token_id)
        real = (position < end).long()
        return TokenBatch(rows, real), real * ((position < start) | (position >= stop)).long()


@dataclass(frozen=True)
class Prompts:
    """The templates around the sentences of an encoder."""

    own: Template
    """The prompt or special tokens of every text."""
    longest: int
    """Tokens of the longest training sequence, to which shapes are compiled."""
    others: tuple[Template, ...] = ()
    """Prompts of some views in training (`TokenBatch.prompt`)."""

    @property
    def all(self) -> tuple[Template, ...]:
        """By number."""
        return (self.own, *self.others)

    def adding(self, prompt: Template, longest: int) -> Prompts:
        """These and another one, whose sequences have up to ``longest`` tokens."""
        others = self.others if prompt in self.others else (*self.others, prompt)
        return replace(self, others=others, longest=max(longest, self.longest))

    def mask_index(self, numbers: Tensor) -> Tensor:
        """(B,), see `sentrep.encoder.compute.pooling.PoolingInput`."""
        return _of_each(numbers, [prompt.mask_index or 0 for prompt in self.all])

    def own_tokens(self, tokens: TokenBatch) -> Tensor:
        """(B, L) bool, see `TokenBatch.own`."""
        frames = [(len(prompt.prefix), len(prompt.suffix)) for prompt in self.all]
        if tokens.prompt is None:
            return tokens.own(frames[0])
        before, after = (_of_each(tokens.prompt[:, None], list(side)) for side in zip(*frames, strict=True))
        return tokens.own((before, after))

    def vectors(self, pool: Pool, tokens: TokenBatch, first_position: int, every_length: bool) -> Tensor:
        """(B, H): the vector that each sentence's prompt has of its own, see `Template.vectors`."""
        if tokens.prompt is None:
            return self.own.vectors(pool, tokens, 0, first_position, every_length)
        each = [prompt.vectors(pool, tokens, n, first_position, every_length) for n, prompt in enumerate(self.all)]
        return torch.stack(each)[tokens.prompt, torch.arange(len(tokens), device=tokens.prompt.device)]


def _of_each(prompt: Tensor, values: list[int]) -> Tensor:
    """The value of each row's prompt, (...) int64."""
    return to_device(torch.tensor(values), prompt.device)[prompt]
