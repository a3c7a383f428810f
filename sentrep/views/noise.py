"""Perturbations by noise that knows nothing of tokens or dimensions: Gaussian, and dropout."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep import checks, distributed
from sentrep.functional import deviation
from sentrep.views.perturbation import ContrastiveLoss, Perturbation, Place


class GaussianNoise(Perturbation):
    """x + N(0, std²) on every component (thesis, 4.1.2 "GNI").

    Args:
        std: σ ≥ 0.

    Raises:
        InputError: for a negative std.

    Examples:
        >>> import torch
        >>> from sentrep.views import GaussianNoise
        >>> vectors = torch.ones(2, 4)
        >>> GaussianNoise(std=0.1)(vectors, torch.ones(2, dtype=torch.bool), None).shape
        torch.Size([2, 4])
    """

    def __init__(self, std: float = 0.001) -> None:
        checks.not_negative(self, std=std)
        super().__init__(std)
        self.std = std

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        return x + self.std * torch.randn_like(x) * mask[..., None]


class GaussianDropout(Perturbation):
    """x · N(1, std²) on every component (thesis, 4.1.2 "Gaussian dropout").

    Args:
        std: σ ≥ 0.

    Raises:
        InputError: for a negative std.

    Examples:
        >>> import torch
        >>> from sentrep.views import GaussianDropout
        >>> vectors = torch.ones(2, 4)
        >>> GaussianDropout(std=0.1)(vectors, torch.ones(2, dtype=torch.bool), None).shape
        torch.Size([2, 4])
    """

    def __init__(self, std: float = 0.001) -> None:
        checks.not_negative(self, std=std)
        super().__init__(std)
        self.std = std

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        return x * (1 + self.std * torch.randn_like(x) * mask[..., None])


class BatchGaussianNoise(Perturbation):
    """x + N(0, σ²) with σ of each dimension taken from the batch (thesis, 4.1.1 "GNI").

    σ is the standard deviation over the global batch, with N − 1 below; a batch of one is left as it is. No gradient
    flows through it.

    Args:
        scale: factor ≥ 0 on σ; the thesis has 1.

    Raises:
        InputError: for a negative scale.

    Examples:
        >>> import torch
        >>> from sentrep.views import BatchGaussianNoise
        >>> vectors = torch.ones(2, 4)
        >>> BatchGaussianNoise(scale=1.0)(vectors, torch.ones(2, dtype=torch.bool), None)
        tensor([[1., 1., 1., 1.],
                [1., 1., 1., 1.]])
    """

    places: ClassVar[tuple[Place, ...]] = ("output",)

    def __init__(self, scale: float = 1.0) -> None:
        checks.not_negative(self, scale=scale)
        super().__init__(scale)
        self.scale = scale

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        std = deviation(distributed.gather(x.detach()).float())
        noise = self.scale * std * torch.randn(x.shape, device=x.device)
        return x + (noise * mask[:, None]).to(x.dtype)


class BernoulliDropout(Perturbation):
    """Ordinary dropout: a component is zeroed with probability ``rate``, the rest divided by 1 − rate (thesis, 4.1).

    Args:
        rate: in [0, 1).
        rescale: whether the rest is divided; the thesis's code multiplies with draws of 0 and 1 and leaves it.

    Raises:
        InputError: for another rate.

    Examples:
        >>> import torch
        >>> from sentrep.views import BernoulliDropout
        >>> vectors = torch.ones(2, 4)
        >>> BernoulliDropout(rate=0.5)(vectors, torch.ones(2, dtype=torch.bool), None).shape
        torch.Size([2, 4])
    """

    def __init__(self, rate: float = 0.1, rescale: bool = True) -> None:
        checks.share(self, rate=rate)
        super().__init__(rate)
        self.rate = rate
        self.rescale = rescale

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`."""
        kept = F.dropout(x, self.rate)
        if not self.rescale:
            kept = x.masked_fill(kept == 0, 0.0)
        return torch.where(mask[..., None], kept, x)
