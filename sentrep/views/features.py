"""Perturbations that zero whole dimensions."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from sentrep import checks
from sentrep.views.perturbation import ContrastiveLoss, Perturbation, Place


class FeatureDropout(Perturbation):
    """Each dimension is zeroed for a whole sentence with probability ``rate`` (thesis, 4.1.2; DCLR, fig. 3).

    This is ConSERT's feature cutoff with a Bernoulli draw per dimension, as in the thesis; ConSERT's code
    zeroes exactly ⌊rate · E⌋ dimensions. As there, the remaining features are not rescaled.

    Args:
        rate: in [0, 1).

    Raises:
        InputError: for another rate.

    Examples:
        >>> import torch
        >>> from sentrep.views import FeatureDropout
        >>> vectors = torch.ones(2, 4)
        >>> FeatureDropout(rate=0.5)(vectors, torch.ones(2, dtype=torch.bool), None).shape
        torch.Size([2, 4])
    """

    def __init__(self, rate: float = 0.1) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.rate = rate

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        per_sentence = (len(x), *[1] * (x.ndim - 2), x.shape[-1])
        dropped = torch.rand(per_sentence, device=x.device) < self.rate
        return x.masked_fill(dropped & mask[..., None], 0.0)


class FeatureMask(Perturbation):
    """Zeroes the dimensions of each vector with the smallest or the largest entries (thesis, 4.1.1).

    Args:
        which: ``trivial``, the ⌊rate · D⌋ smallest, or ``significant``, the largest.
        rate: in [0, 1).
        by: the compared quantity: ``magnitude`` |x_d|, or the signed ``value`` x_d, as in the thesis's code.

    Raises:
        InputError: for another rate or name.

    Examples:
        >>> import torch
        >>> from sentrep.views import FeatureMask
        >>> vectors = torch.arange(8.0).reshape(2, 4)
        >>> FeatureMask("trivial", rate=0.5)(vectors, torch.ones(2, dtype=torch.bool), None)
        tensor([[0., 0., 2., 3.],
                [0., 0., 6., 7.]])
    """

    places: ClassVar[tuple[Place, ...]] = ("output",)

    def __init__(
        self,
        which: Literal["trivial", "significant"],
        rate: float = 0.1,
        by: Literal["magnitude", "value"] = "magnitude",
    ) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.which = which
        self.by = by
        self.rate = rate

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        size = x.detach().abs() if self.by == "magnitude" else x.detach()
        chosen = size.topk(int(self.rate * x.shape[-1]), largest=self.which == "significant").indices
        dropped = torch.zeros_like(x, dtype=torch.bool).scatter_(-1, chosen, True)
        return x.masked_fill(dropped & mask[..., None], 0.0)
