"""Token augmentations: words repeated (ESimCSE), tokens left out, tokens swapped.

They touch a sentence's own n tokens only: no special tokens, no words of a prompt.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sentrep import checks
from sentrep.types import TokenBatch
from sentrep.views.token_augmentation import TokenAugmentation
from sentrep.views.tokens import random_order


class WordRepetition(TokenAugmentation):
    """Repeats some sub-words in place, so that the views differ in length (ESimCSE, Wu et al. 2022, §3).

    The number of repeated sub-words is uniform in 0, …, max(2, ⌊rate · n⌋) for each sentence, and they are drawn
    without replacement. Beyond the paper, their number is limited by the sentence's sub-words and the longest training
    sequence.

    Args:
        rate: in (0, 1]; 0.32 in the paper.

    Raises:
        InputError: for another rate.

    Examples:
        >>> from sentrep.views import EncodedViews, WordRepetition
        >>> views = EncodedViews([WordRepetition(rate=0.32)])  # the argument ``views`` of SentRepModule
    """

    def __init__(self, rate: float = 0.32) -> None:
        checks.within(self, 0, 1, open_below=True, rate=rate)
        super().__init__(rate)
        self.rate = rate

    def forward(self, tokens: TokenBatch) -> TokenBatch:
        """See `TokenAugmentation.forward`; wider by the most that could be repeated, whatever is drawn."""
        own, width = tokens.own(self.frame), tokens.input_ids.shape[1]
        count = own.sum(1, keepdim=True)
        most = (self.rate * count).floor().clamp_min(2)
        drawn = (torch.rand(len(tokens), 1, device=own.device) * (most + 1)).floor().minimum(count)
        wider = width + max(2, int(self.rate * width))
        if self.longest is not None:
            drawn = drawn.minimum((self.longest - tokens.attention_mask.sum(1, keepdim=True)).clamp_min(0))
            wider = max(width, min(wider, self.longest))
        repeated = own & (random_order(own).argsort(1) < drawn)
        return tokens.repeat(1 + repeated.long(), wider, self.pad_token_id)


class TokenDeletion(TokenAugmentation):
    """Deletes ⌊rate · n⌋ tokens of each sentence, drawn without replacement, and closes the gaps.

    `sentrep.views.TokenCutoff` zeroes tokens and keeps their places.

    Args:
        rate: in [0, 1).

    Raises:
        InputError: for another rate.

    Examples:
        >>> import torch
        >>> from sentrep import TokenBatch
        >>> from sentrep.views import TokenDeletion
        >>> tokens = TokenBatch(torch.arange(12).view(2, 6), torch.ones(2, 6, dtype=torch.long))
        >>> TokenDeletion(rate=0.5)(tokens).attention_mask.sum(1)
        tensor([3, 3])
    """

    def __init__(self, rate: float = 0.1) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.rate = rate

    def forward(self, tokens: TokenBatch) -> TokenBatch:
        """See `TokenAugmentation.forward`; as wide as before."""
        own = tokens.own(self.frame)
        kept = ~own | (random_order(own).argsort(1) >= (self.rate * own.sum(1, keepdim=True)).floor())
        return tokens.repeat(kept.long(), own.shape[1], self.pad_token_id)


class TokenSwap(TokenAugmentation):
    """Swaps ⌊rate · n / 2⌋ pairs of tokens of each sentence, drawn without replacement.

    Args:
        rate: share in [0, 1) of the tokens that change places.

    Raises:
        InputError: for another rate.

    Examples:
        >>> import torch
        >>> from sentrep import TokenBatch
        >>> from sentrep.views import TokenSwap
        >>> tokens = TokenBatch(torch.arange(12).view(2, 6), torch.ones(2, 6, dtype=torch.long))
        >>> TokenSwap(rate=0.5)(tokens).input_ids.shape
        torch.Size([2, 6])
    """

    def __init__(self, rate: float = 0.1) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.rate = rate

    def forward(self, tokens: TokenBatch) -> TokenBatch:
        """See `TokenAugmentation.forward`."""
        own, ids = tokens.own(self.frame), tokens.input_ids
        order = random_order(own)
        place = torch.arange(ids.shape[1], device=ids.device)
        pairs = (self.rate * own.sum(1, keepdim=True) / 2).floor()
        other = torch.where(place < 2 * pairs, place + 1 - 2 * (place % 2), place)  # 0 and 1, 2 and 3, ...
        return replace(tokens, input_ids=ids.scatter(1, order, ids.gather(1, order.gather(1, other))))
