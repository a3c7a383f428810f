"""Masking tokens for masked language modelling."""

from __future__ import annotations

import torch
from torch import Tensor


def choose_tokens(candidates: Tensor, count: int, word_starts: Tensor | None = None) -> Tensor:
    """Draw ``count`` tokens at random, or whole words until there are ``count`` tokens.

    How many there are is fixed, and not drawn as well, so that no shape depends on a random number: an accelerator
    does not wait for it. Of whole words the last one drawn may be taken in part.

    Args:
        candidates: (B, L) bool, the tokens that may be chosen; at least ``count`` of them are True.
        count: number of tokens, ≥ 1.
        word_starts: (B, L) bool, True on the first token of each word; None chooses tokens one by one.

    Returns:
        (count,) int64, positions in the flattened (B · L).
    """
    priority = torch.rand(candidates.shape, device=candidates.device)
    if word_starts is not None:
        priority = priority.gather(1, (word_starts.cumsum(1) - 1).clamp_min(0))  # one number for all of a word
    return priority.masked_fill(~candidates, 2.0).flatten().topk(count, largest=False, sorted=False).indices


def corrupt(
    input_ids: Tensor, chosen: Tensor, mask_token_id: int, vocab_size: int, mask: float, random: float
) -> Tensor:
    """Replace the chosen tokens as BERT does: by the mask token, by a random token, or not at all.

    Args:
        input_ids: (B, L) int64, left as it is.
        chosen: (m,) positions in the flattened (B · L).
        mask_token_id: the mask token.
        vocab_size: random tokens are drawn from 0 … vocab_size − 1.
        mask: probability of the mask token.
        random: probability of a random token; the rest stays.

    Returns:
        (B, L) int64.
    """
    flat = input_ids.flatten().clone()
    kind = torch.rand(chosen.shape, device=chosen.device)
    drawn = torch.randint(vocab_size, chosen.shape, device=chosen.device)
    replaced = torch.where(kind < mask, mask_token_id, torch.where(kind < mask + random, drawn, flat[chosen]))
    return flat.scatter(0, chosen, replaced).view_as(input_ids)
