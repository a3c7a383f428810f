"""The anchors themselves, with noise (the thesis)."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep.functional import deviation
from sentrep.negatives.base import NegativeSampler, check_ratio, count


class NoisyAnchorNegatives(NegativeSampler):
    """Anchor + N(0, σ_z²), with the deviation σ_z of each dimension over the anchors (thesis, "GNI to anchor").

    Every anchor is pushed away from noisy copies of all anchors, its own included: this row of table 5 (68.79) is far
    below the baseline (74.80). A batch of one sentence has no deviation and gets no negatives.

    Args:
        ratio: M as a multiple of the global batch; the copies cycle through the anchors.
        weight: λ ≥ 0.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import NoisyAnchorNegatives
        >>> sampler = NoisyAnchorNegatives(ratio=1)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "noise")
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([4, 8])
    """

    def __init__(self, ratio: float = 1.0, weight: float = 1.0) -> None:
        super().__init__(weight)
        check_ratio(self, ratio)
        self.ratio = ratio

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M noisy copies (M, D): row m is of anchor m mod N."""
        anchors = anchors.float()
        size, width = anchors.shape
        if size < 2:
            return anchors.new_zeros(0, width)
        copied = torch.arange(count(anchors, self.ratio), device=anchors.device) % size
        noise = torch.randn(len(copied), width, generator=self.generator(anchors.device), device=anchors.device)
        return anchors[copied] + deviation(anchors) * noise
