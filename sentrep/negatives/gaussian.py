"""Gaussian noise (GS-InfoNCE)."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks
from sentrep.negatives.base import NegativeSampler, check_ratio, count


class GaussianNegatives(NegativeSampler):
    """M vectors g ~ N(μ, σ²), drawn at each step and shared by all anchors (GS-InfoNCE, eq. 5).

    Cosine ignores the length of g, so σ has no effect for μ = 0, but has one for μ ≠ 0. The authors' released
    code still tunes σ per backbone (0.5 or 0.1).

    With μ = 0 and D in the hundreds, g is orthogonal to every sentence: its share of the softmax is about
    M exp(1 / (2 D τ²)) / exp(s_ii / τ), and 192 draws beside 64 sentences have 2e-6 to 5e-6 on all-MiniLM-L6-v2
    (``dose/<sampler>`` of `sentrep.objectives.Contrastive`). Draws with so small a share hardly change the gradient.

    Args:
        ratio: M as a multiple of the global batch; the paper's best is 3, and more than 8 hurts.
        mean: μ, of every dimension.
        std: σ > 0.
        weight: λ ≥ 0 of eq. 5.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import GaussianNegatives
        >>> sampler = GaussianNegatives(ratio=3)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "noise")
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([12, 8])
    """

    def __init__(self, ratio: float = 3.0, mean: float = 0.0, std: float = 1.0, weight: float = 1.0) -> None:
        super().__init__(weight)
        check_ratio(self, ratio)
        checks.positive(self, std=std)
        checks.within(self, -checks.LARGEST, checks.LARGEST, mean=mean)
        self.ratio = ratio
        self.mean = mean
        self.std = std

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M draws (M, D); the embeddings give number and width only."""
        shape = (count(anchors, self.ratio), anchors.shape[1])
        noise = torch.randn(shape, generator=self.generator(anchors.device), device=anchors.device)
        return self.mean + self.std * noise
