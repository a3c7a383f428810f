"""Weights from the trained encoder itself."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks, distributed
from sentrep.functional import cosine_similarity_matrix
from sentrep.types import TextBatch, Views
from sentrep.weighting.base import PairWeighting
from sentrep.weighting.threshold import Kind, Threshold, removed


class SelfWeighting(PairWeighting):
    """The model is its own complementary model: eq. 5 with the very cosines of the loss (DCLR, table 2).

    Args:
        threshold: φ in [−1, 1].
        mask_noise: whether extra negatives are weighted too.
        kind: ``hard`` (eq. 5) or ``soft`` weights; see `sentrep.weighting.threshold.Threshold`.
        softness: width of the soft threshold.

    Raises:
        InputError: for values out of range.
    """

    def __init__(self, threshold: float, mask_noise: bool = True, kind: Kind = "hard", softness: float = 0.05) -> None:
        super().__init__()
        checks.flag(self, mask_noise=mask_noise)
        self.weigh = Threshold(threshold, kind, softness)
        self.mask_noise = mask_noise

    @torch.no_grad()
    def forward(self, batch: TextBatch, views: Views, negatives: Tensor) -> Tensor:
        """See `PairWeighting.forward`."""
        keys = distributed.gather(views.key)
        weights = self.weigh(cosine_similarity_matrix(views.anchor, keys))
        if len(negatives):
            extra = (
                self.weigh(cosine_similarity_matrix(views.anchor, negatives))
                if self.mask_noise
                else weights.new_ones(len(weights), len(negatives))
            )
            weights = torch.cat([weights, extra], dim=1)
        self.metrics = removed(weights, len(keys))
        return weights
