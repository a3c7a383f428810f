"""Alignment as a term of the loss."""

from __future__ import annotations

from torch import Tensor

from sentrep import functional
from sentrep.objectives.base import Objective
from sentrep.types import TextBatch, Views


class Alignment(Objective):
    """Mean squared distance of anchor and positive on the unit sphere (Wang & Isola 2020, eq. 1 with α = 2).

        mean_i ‖h_i − h_i⁺‖²

    Alone, its minimum is an encoder that maps all sentences to one point: combine it with `Uniformity`.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import Alignment
        >>> x = torch.eye(3)
        >>> Alignment()(Views(x, x, None, None, None), None)
        tensor(0.)
    """

    reads_tokens = False
    compiles = True

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """In [0, 4]; the mean over this process's rows."""
        return functional.alignment(views.anchor, views.positive)
