"""Perturbations of whole tokens: erased, or in another order (ConSERT; DCLR, fig. 3).

They touch a sentence's own n tokens only: an encoder cannot do without [CLS], [SEP] or a prompt. (ConSERT's code draws
from all tokens that are not padding.)
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from sentrep import checks
from sentrep.views.perturbation import ContrastiveLoss, Perturbation, Place


class TokenCutoff(Perturbation):
    """Erases the word embeddings of ⌊rate · n⌋ tokens of each sentence, drawn without replacement.

    An erased token keeps its place: its position and type embeddings remain, and other tokens still attend to it.

    Args:
        rate: in [0, 1).

    Raises:
        InputError: for another rate.

    Examples:
        >>> import torch
        >>> from sentrep.views import TokenCutoff
        >>> words, mask = torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool)
        >>> TokenCutoff()(words, mask, None).shape
        torch.Size([2, 6, 4])
    """

    places: ClassVar[tuple[Place, ...]] = ("input",)
    spares_frame: ClassVar[bool] = True

    def __init__(self, rate: float = 0.15) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.rate = rate

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        rank = random_order(mask).argsort(1)
        cut = rank < (self.rate * mask.sum(1, keepdim=True)).floor()
        return x.masked_fill(cut[..., None], 0.0)


class SpanCutoff(Perturbation):
    """Erases the word embeddings of one span of ⌊rate · n⌋ tokens of each sentence; every start is equally likely.

    As with `TokenCutoff`, the erased tokens keep their places.

    Args:
        rate: in [0, 1).

    Raises:
        InputError: for another rate.

    Examples:
        >>> import torch
        >>> from sentrep.views import SpanCutoff
        >>> words, mask = torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool)
        >>> SpanCutoff()(words, mask, None).shape
        torch.Size([2, 6, 4])
    """

    places: ClassVar[tuple[Place, ...]] = ("input",)
    spares_frame: ClassVar[bool] = True

    def __init__(self, rate: float = 0.15) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.rate = rate

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        count = mask.sum(1, keepdim=True)
        length = (self.rate * count).floor()
        start = (torch.rand(len(x), 1, device=x.device) * (count - length + 1)).floor()
        index = mask.cumsum(1) - 1
        cut = mask & (index >= start) & (index < start + length)
        return x.masked_fill(cut[..., None], 0.0)


class TokenShuffling(Perturbation):
    """Puts each sentence's tokens into a random order.

    ConSERT permutes the position ids. Permuting the word embeddings gives the same pooled vector, because
    attention depends on a token's content and position but not on its row. It also works with relative positions.
    `EncoderOutput.token_states` of such a positive are in the shuffled order.

    Examples:
        >>> import torch
        >>> from sentrep.views import TokenShuffling
        >>> words, mask = torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool)
        >>> TokenShuffling()(words, mask, None).shape
        torch.Size([2, 6, 4])
    """

    places: ClassVar[tuple[Place, ...]] = ("input",)
    spares_frame: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        places = (~mask).long().argsort(dim=1, stable=True)
        source = torch.empty_like(places).scatter_(1, places, random_order(mask))
        return x.gather(1, source[..., None].expand_as(x))


def random_order(mask: Tensor) -> Tensor:
    """(B, L) indices of each row: first the True positions of ``mask`` in random order, then the others as they are."""
    return torch.rand(mask.shape, device=mask.device).masked_fill(~mask, torch.inf).argsort(dim=1, stable=True)
