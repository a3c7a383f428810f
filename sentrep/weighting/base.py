"""What every weighting of pairs has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from sentrep.config import Configurable
from sentrep.encoder import EncoderServices
from sentrep.types import EncoderSpec, TextBatch, Views


class PairWeighting(Configurable, nn.Module, ABC):
    """Weights of (anchor, negative) pairs in the denominator of InfoNCE.

    Attributes:
        metrics: detached scalars of the last `forward` to log, by name.

    Examples:
        >>> import torch
        >>> from sentrep import PairWeighting, Views
        >>> class Half(PairWeighting):
        ...     def forward(self, batch, views, negatives):
        ...         return torch.full((len(views.anchor), len(views.anchor) + len(negatives)), 0.5)
        >>> Half()(None, Views(torch.eye(2), torch.eye(2), None, None, None), torch.zeros(1, 2)).shape
        torch.Size([2, 3])
    """

    def __init__(self) -> None:
        super().__init__()
        self.metrics: dict[str, Tensor] = {}

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create tensors; called once, before training."""

    @abstractmethod
    def forward(self, batch: TextBatch, views: Views, negatives: Tensor) -> Tensor:
        """Weights of all pairs.

        Args:
            batch: this process's B sentences.
            views: their views.
            negatives: (M, D) extra negatives of all anchors, detached; M may be 0. Negatives of one anchor alone
                are not weighted.

        Returns:
            (B, N + M) in [0, ∞), without gradient: first the N in-batch keys of the global batch in rank order, then
            the extra negatives. The weight of the positive is ignored.
        """
