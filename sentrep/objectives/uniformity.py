"""Uniformity as a term of the loss."""

from __future__ import annotations

from torch import Tensor

from sentrep import distributed, functional
from sentrep.errors import InputError
from sentrep.objectives.base import Objective
from sentrep.types import TextBatch, Views


class Uniformity(Objective):
    """How unevenly the global batch covers the unit sphere (Wang & Isola 2020, eq. 2 with t = 2).

        ½ (U(h) + U(h⁺)),   U(x) = log mean_{i<j} exp(−2 ‖x_i − x_j‖²)

    As in the authors' code it is the mean over anchors and positives.

    Raises:
        InputError: for a batch of one sentence.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import Uniformity
        >>> x = torch.eye(3)
        >>> Uniformity()(Views(x, x, None, None, None), None)
        tensor(-4.)
    """

    reads_tokens = False
    compiles = True

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """In [−8, 0]; the global batch's value on every process."""
        anchors, positives = distributed.gather(views.anchor), distributed.gather(views.positive)
        if len(anchors) == 1:
            raise InputError("a batch of one sentence has no uniformity: raise data.batch_size")
        return (functional.uniformity(anchors) + functional.uniformity(positives)) / 2
