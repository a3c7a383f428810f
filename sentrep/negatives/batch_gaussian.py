"""Gaussian noise with the statistics of the batch (the thesis)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sentrep.errors import InputError
from sentrep.functional import deviation
from sentrep.functional.similarity import at_least_float32
from sentrep.negatives.base import NegativeSampler, check_ratio, count


class BatchGaussianNegatives(NegativeSampler):
    """M vectors g ~ N(μ_z, σ_z²), with mean and deviation of each dimension over the anchors (thesis, tables 5 and 7).

    ``use_mean`` and ``use_std`` give the four combinations of table 7: 0 replaces μ_z and 1 replaces σ_z if they are
    false. This noise ignores correlations of dimensions. ``covariance`` adds them, with
    Σ = Zᵀ Z / (N − 1) of the centred anchors Z:

    - ``"multiplied"``: g Σ, for a g drawn as above. The thesis only says that the covariance of the anchors is
      computed and its inner product with the sampled noise taken ("filtered with the covariance matrix"); this follows
      its words. The product has covariance Σ diag(σ_z²) Σ, not Σ.
    - ``"full"``: our extension, an exact draw of N(μ_z, Σ): μ_z + Zᵀ ε / √(N − 1) with ε (N,) standard
      normal, also for the singular Σ of fewer anchors than dimensions. It does not use σ_z.

    Neither builds the D×D matrix. A batch of one sentence has no deviation and gets no negatives.

    Args:
        ratio: M as a multiple of the global batch.
        use_mean: whether the noise has the mean of the anchors, or 0.
        use_std: whether it has the anchors' deviations, or 1.
        covariance: the correlation of dimensions; see above.
        weight: λ ≥ 0.
        gradient: the statistics through which the gradient of the noise reaches the anchors: ``none``;
            Σ alone (``covariance``), as in the thesis's code; or μ_z, σ_z and Σ (``all``). The code
            detaches neither μ_z nor σ_z, but its torch.normal passes no gradient to them.

    Raises:
        InputError: for values out of range, for ``use_std=False`` with ``covariance="full"``, and for
            ``gradient="covariance"`` without a covariance.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import BatchGaussianNegatives
        >>> sampler = BatchGaussianNegatives(ratio=2)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "noise")
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([8, 8])
    """

    def __init__(
        self,
        ratio: float = 1.0,
        use_mean: bool = True,
        use_std: bool = True,
        covariance: Literal["none", "multiplied", "full"] = "none",
        weight: float = 1.0,
        gradient: Literal["none", "covariance", "all"] = "none",
    ) -> None:
        super().__init__(weight)
        check_ratio(self, ratio)
        if covariance == "full" and not use_std:
            raise InputError("BatchGaussianNegatives: covariance 'full' has deviations of its own; leave use_std true")
        if covariance == "none" and gradient == "covariance":
            raise InputError("BatchGaussianNegatives: gradient 'covariance' needs covariance 'multiplied' or 'full'")
        self.ratio = ratio
        self.use_mean = use_mean
        self.use_std = use_std
        self.covariance = covariance
        self.gradient = gradient
        self.with_gradient = gradient != "none"

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M draws (M, D) from the distribution of the anchors; none for a single anchor."""
        anchors = at_least_float32(anchors if self.with_gradient else anchors.detach())
        size, width = anchors.shape
        if size < 2:
            return anchors.new_zeros(0, width)
        centred = (anchors - anchors.mean(0)) / (size - 1) ** 0.5  # Σ = centredᵀ centred
        shape = (count(anchors, self.ratio), size if self.covariance == "full" else width)
        noise = torch.randn(shape, generator=self.generator(anchors.device), device=anchors.device).to(anchors.dtype)
        around = anchors if self.gradient == "all" else anchors.detach()
        with torch.autocast(anchors.device.type, enabled=False):
            if self.covariance == "full":
                noise = noise @ centred
            elif self.use_std:
                noise = noise * deviation(around)
            if self.use_mean:
                noise = noise + around.mean(0)
            return (noise @ centred.T) @ centred if self.covariance == "multiplied" else noise
