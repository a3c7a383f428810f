"""The contrast of DCLR's released code."""

from __future__ import annotations

from torch import Tensor

from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.binary import binary_info_nce
from sentrep.negatives import NegativeSampler
from sentrep.objectives.base import Objective
from sentrep.objectives.contrastive import Contrastive
from sentrep.types import EncoderSpec, TextBatch, Views
from sentrep.weighting import PairWeighting


class BinaryContrastive(Objective):
    """A binary cross-entropy for every pair, over the softmax of its row: the loss of DCLR's released code.

        p_i = softmax_j(w_ij cos(h_i, h_j⁺) / τ),     ℓ = mean over i, j of −[y_ij log p_ij + (1 − y_ij) log(1 − p_ij)]

    y_ij is 1 for j = i and 0 elsewhere; j runs over the sentences of all processes, then over the extra negatives. A
    weight multiplies the logit and removes no pair. The paper's eq. 6 is `Contrastive`, whose gradient is about N + M
    times as large: norms here are 0.03 to 0.08, so clipping at norm 1 has no effect.

    Args:
        temperature: τ > 0.
        negatives: samplers of extra negatives, by name; their λ multiplies the logit as well.
        weighting: weights w of the pairs; None for all 1. The released code has ``mask_noise: false``.

    Raises:
        InputError: for values out of range, a batch of one sentence without extra negatives, a second view, and
            negatives that are drawn for one anchor alone.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import BinaryContrastive
        >>> x = torch.eye(3)
        >>> BinaryContrastive(temperature=1.0)(Views(x, x, None, None, None), None)
        tensor(0.3426)
    """

    reads_tokens = False
    compiles = True

    def __init__(
        self,
        temperature: float = 0.05,
        negatives: dict[str, NegativeSampler | None] | None = None,
        weighting: PairWeighting | None = None,
    ) -> None:
        super().__init__()
        self.contrast = Contrastive(temperature, negatives, weighting)

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build samplers and weighting."""
        self.contrast.build(spec, services)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean over the pairs of this process's rows; see the class."""
        candidates, weights = self.contrast.compared(views, batch)
        if candidates.left_out is not None or candidates.drawn_by_row.shape[1]:
            raise InputError(
                "BinaryContrastive: a second view, and negatives of one anchor alone, are not in DCLR's loss; "
                "use Contrastive, or views.negatives copies and samplers that draw for all anchors"
            )
        doses = self.contrast.doses(views.anchor, candidates, weights, multiplied=True)
        self.metrics = {**self.contrast.metrics, **doses}
        return binary_info_nce(
            views.anchor,
            candidates.keys,
            temperature=self.contrast.temperature,
            positives=candidates.positives,
            negatives=candidates.drawn,
            weights=weights,
        )

    def after_step(self, views: Views) -> None:
        """Advance the samplers."""
        self.contrast.after_step(views)
