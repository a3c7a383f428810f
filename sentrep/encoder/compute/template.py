"""The vector that a prompt has of its own, without a text in its slot (PromptBERT's template denoising)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep.types import TokenBatch


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
        count = None if tokens.real_tokens is None else tokens.real_tokens + more * len(tokens)
        return TokenBatch(found.input_ids, found.attention_mask, count, torch.full_like(found.input_ids[:, 0], number))

    def vectors(
        self,
        pool: Callable[[TokenBatch, Tensor], Tensor],
        tokens: TokenBatch,
        training: bool,
        rows: Tensor | None = None,
    ) -> Tensor:
        """(B, H): the prompt's vector with nothing in its slot, its words at the positions that each sentence gives it.

        A text in the slot that no token can see leaves exactly that, whatever kind of positions the backbone has. Only
        the text's length matters, so each length is run once: those that occur or, in training on an accelerator, which
        would have to wait for them to be read, and where shapes are compiled, all that the batch has room for.

        Args:
            pool: pooled vectors (K, H) of tokens (K, L), of which every token attends to the visible (K, L) ones alone.
            tokens: the batch (B, L).
            training: whether this is a training pass.
            rows: (B,) bool, which sentences stand in this prompt; what the others get means nothing. None: all.
        """
        lengths = tokens.attention_mask.sum(1) - len(self.prefix) - len(self.suffix)
        if rows is not None:
            lengths = lengths.where(rows, 0)
        width = tokens.input_ids.shape[1]
        room = width - len(self.prefix) - len(self.suffix)
        all_lengths = torch.compiler.is_compiling() or (training and lengths.device.type != "cpu")
        run_lengths = torch.arange(room + 1, device=lengths.device) if all_lengths else lengths.unique()
        return pool(*self._around(run_lengths, width))[torch.searchsorted(run_lengths, lengths)]

    def _around(self, lengths: Tensor, width: int, text: Tensor | None = None) -> tuple[TokenBatch, Tensor]:
        """The prompt around a text of each length, (K, width) or any that is hidden, and what is visible without it."""
        position = torch.arange(width, device=lengths.device)
        start = len(self.prefix)
        stop = start + lengths[:, None]
        # not waiting for the copy, as torch.tensor(..., device=...) does
        after = torch.tensor(self.suffix).to(lengths.device, non_blocking=True)
        suffix = after[(position - stop).clamp(0, len(self.suffix) - 1)]
        if text is None:  # any token but padding, from which some backbones count their positions
            text = torch.full_like(suffix, self.suffix[-1])
        before = torch.tensor(self.prefix).to(lengths.device, non_blocking=True)
        prefix = F.pad(before, (0, width - start)).expand_as(suffix)
        end = stop + len(self.suffix)
        rows = torch.where(position < start, prefix, torch.where(position < stop, text, suffix))
        rows = torch.where(position < end, rows, self.pad_token_id)
        real = (position < end).long()
        return TokenBatch(rows, real), real * ((position < start) | (position >= stop)).long()
