"""A contrast without the other sentences of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import distributed
from sentrep.types import TextBatch, Views
from sentrep.weighting.base import PairWeighting


class OnlyExtraNegatives(PairWeighting):
    """Weight 0 for the other sentences of the batch: only hard negatives and drawn negatives are pushed away.

    `Contrastive` refuses it without any of them. In the first step of a memory bank, which is empty, the loss is 0.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.weighting import OnlyExtraNegatives
        >>> x = torch.eye(2)
        >>> OnlyExtraNegatives()(None, Views(x, x, None, None, None), torch.zeros(1, 2))
        tensor([[0., 0., 1.],
                [0., 0., 1.]])
    """

    def forward(self, batch: TextBatch, views: Views, negatives: Tensor) -> Tensor:
        """(B, N + M): 0 for the batch, 1 for the extra negatives; see the class."""
        rows = len(views.anchor)
        batch_size = rows * distributed.world_size()
        return torch.cat([negatives.new_zeros(rows, batch_size), negatives.new_ones(rows, len(negatives))], dim=1)
