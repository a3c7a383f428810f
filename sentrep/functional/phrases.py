"""Which part of a sentence says most: its rarest run of tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep import distributed


@torch.no_grad()
def find_phrases(ids: Tensor, own: Tensor, share: float, vocab_size: int) -> tuple[Tensor, Tensor]:
    """The run of own tokens in each sentence with the largest sum of log(N / n).

    n is the number of sentences of the global batch (N) that hold a token (`sentrep.objectives.PhraseReconstruction`).

    Args:
        ids: (B, L), the rows of this process.
        own: (B, L) bool, the tokens that may be in a phrase; they stand together.
        share: length of a phrase, of the number of own tokens.
        vocab_size: V.

    Returns:
        (B,) places of the first tokens, and (B,) lengths, 0 for a sentence without own tokens.
    """
    # every token once a sentence; all other tokens count as one more kind
    kinds = ids.masked_fill(~own, vocab_size).sort(1).values
    fresh = F.pad(kinds[:, 1:] != kinds[:, :-1], (1, 0), value=True)
    holding = torch.zeros(vocab_size + 1, dtype=torch.float32, device=ids.device)
    holding.scatter_add_(0, kinds.flatten(), fresh.flatten().float())
    holding = distributed.total(holding)
    sentences = distributed.total(holding.new_full((), len(ids)))
    rarity = (sentences / holding[ids].clamp_min(1)).log().masked_fill(~own, 0.0)
    count, first_own = own.sum(1), own.int().argmax(1)
    length = torch.minimum((share * count).round().long().clamp_min(1), count)
    sums = F.pad(rarity.cumsum(1), (1, 0))
    start = torch.arange(ids.shape[1], device=ids.device)
    end = start + length[:, None]
    score = sums.gather(1, end.clamp_max(ids.shape[1])) - sums[:, :-1]
    possible = (start >= first_own[:, None]) & (end <= (first_own + count)[:, None])
    return score.masked_fill(~possible, -1.0).argmax(1), length
