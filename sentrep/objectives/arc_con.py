"""ArcCSE's contrast with an angular margin."""

from __future__ import annotations

from torch import Tensor

from sentrep import checks
from sentrep.encoder import EncoderServices
from sentrep.negatives import NegativeSampler
from sentrep.objectives.base import Objective
from sentrep.objectives.contrastive import Contrastive
from sentrep.types import EncoderSpec, TextBatch, Views
from sentrep.weighting import PairWeighting


class ArcCon(Objective):
    """InfoNCE with a margin on the angle of every positive pair: ArcCon of ArcCSE (Zhang et al. 2022).

        ℓ_i = −log  exp(s_ii) / Σ_j exp(s_ij),   s_ii = cos(θ_ii + m) / τ,   s_ij = cos(θ_ij) / τ

    θ_ij is the angle between h_i and h_j⁺; j runs over the sentences of all processes. Hard negatives, draws and
    weights enter the denominator as in `Contrastive`.

    Metrics: as of `Contrastive`.

    Args:
        temperature: τ > 0.
        margin: m in [0, 90] degrees; the paper's is 10.
        negatives: samplers of extra negatives, by name; None entries are ignored.
        weighting: weights of the pairs; None for all 1.
        block: rows of the similarity matrix in memory at a time, as of `Contrastive`.

    Raises:
        InputError: for values out of range, and for a batch of one sentence without extra negatives.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import ArcCon
        >>> x = torch.eye(3)
        >>> ArcCon(temperature=1.0)(Views(x, x, None, None, None), None)
        tensor(0.5579)
    """

    reads_tokens = False
    compiles = True

    def __init__(
        self,
        temperature: float = 0.05,
        margin: float = 10.0,
        negatives: dict[str, NegativeSampler | None] | None = None,
        weighting: PairWeighting | None = None,
        block: int | None = None,
    ) -> None:
        super().__init__()
        checks.within(self, 0, 90, margin=margin)
        self.margin = margin
        self.contrast = Contrastive(temperature, negatives, weighting, block=block)

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build samplers and weighting."""
        self.contrast.build(spec, services)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        candidates, weights = self.contrast.compared(views, batch)
        loss = self.contrast.info_nce(views.anchor, candidates, weights, self.margin)
        self.metrics = self.contrast.metrics
        return loss

    def after_step(self, views: Views) -> None:
        """Advance the samplers."""
        self.contrast.after_step(views)
