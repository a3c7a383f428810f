"""SNCSE's margin for soft negatives."""

from __future__ import annotations

from torch import Tensor

from sentrep import checks
from sentrep.errors import InputError
from sentrep.functional.similarity import unit
from sentrep.objectives.base import Objective
from sentrep.types import TextBatch, Views


class BidirectionalMargin(Objective):
    """A sentence's soft negative, its negation, is slightly less similar than its positive (SNCSE, Wang et al. 2022).

        ℓ_i = ReLU(Δ_i + α) + ReLU(−Δ_i − β),   Δ_i = cos(h_i, h_i') − cos(h_i, h_i⁺)

    h' is the soft negative, the third column of the corpus; ℓ is 0 where Δ lies in [−β, −α]. The paper adds it to
    InfoNCE without h' (`Contrastive` with ``hard_negative_weight: null``), with weight λ = 1e-3.

    Metrics: ``difference``, the mean of Δ.

    Args:
        alpha: α ≥ 0, the least margin.
        beta: β ≥ α, the largest.

    Raises:
        InputError: for values out of range, and for a corpus without a third column.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import BidirectionalMargin
        >>> x, soft = torch.eye(2), torch.eye(2).flip(0)
        >>> BidirectionalMargin(alpha=0.1, beta=0.3)(Views(x, x, soft, None, None), None)
        tensor(0.7000)
    """

    reads_tokens = False
    compiles = True

    def __init__(self, alpha: float = 0.1, beta: float = 0.3) -> None:
        super().__init__()
        checks.not_negative(self, alpha=alpha, beta=beta)
        if alpha > beta:
            raise InputError(f"BidirectionalMargin: alpha must not exceed beta, got {alpha} and {beta}")
        self.alpha = alpha
        self.beta = beta

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        if views.negative is None:
            raise InputError("BidirectionalMargin needs soft negatives: name a third column in data.columns")
        anchor, positive, soft = unit(views.anchor), unit(views.positive), unit(views.negative)
        difference = (anchor * soft).sum(1) - (anchor * positive).sum(1)
        self.metrics = {"difference": difference.detach().mean()}
        return ((difference + self.alpha).relu() + (-difference - self.beta).relu()).mean()
