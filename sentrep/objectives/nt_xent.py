"""SimCLR's contrast in both directions."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sentrep import distributed
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.negatives import NegativeSampler
from sentrep.objectives.base import Objective
from sentrep.objectives.contrastive import Candidates, Contrastive
from sentrep.types import EncoderSpec, TextBatch, Views


class NTXent(Objective):
    """NT-Xent (SimCLR, eq. 1; ConSERT): all 2N anchors and positives of the global batch are queries.

        ℓ(a, b) = −log  exp(s(a, b)) / Σ_c exp(s(a, c)),   s = cosine / τ

    The loss is the mean of ℓ(h_i, h_i⁺) and ℓ(h_i⁺, h_i) over all i; c runs over the other 2N − 1 vectors.

    The negatives of each query are the 2N − 2 vectors of other sentences, the hard negatives and the draws of
    ``negatives``. Draws for one anchor alone are also negatives of its positive.

    Metrics: of the draws, as of `Contrastive`.

    Args:
        temperature: τ > 0.
        negatives: samplers of extra negatives, by name; None entries are ignored.
        block: rows of the similarity matrix in memory at a time, as of `Contrastive`.

    Raises:
        InputError: for values out of range, a batch of one sentence without extra negatives, and a second view.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import NTXent
        >>> x = torch.eye(3)
        >>> NTXent(temperature=1.0)(Views(x, x, None, None, None), None)
        tensor(0.9048)
    """

    reads_tokens = False
    compiles = True

    def __init__(
        self,
        temperature: float = 0.05,
        negatives: dict[str, NegativeSampler | None] | None = None,
        block: int | None = None,
    ) -> None:
        super().__init__()
        self.contrast = Contrastive(temperature, negatives, block=block)

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build the samplers."""
        self.contrast.build(spec, services)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean over both views of this process's rows; see the class."""
        if views.second is not None:
            raise InputError("NTXent does not go with a second view; set views.negatives to copies")
        candidates = both_ways(self.contrast.candidates(views), views.anchor)
        queries = torch.cat([views.anchor, views.positive])
        loss = self.contrast.info_nce(queries, candidates, candidates.weights(None, 0.0))
        self.metrics = self.contrast.metrics
        return loss

    def after_step(self, views: Views) -> None:
        """Advance the samplers."""
        self.contrast.after_step(views)


def both_ways(candidates: Candidates, anchors: Tensor) -> Candidates:
    """The candidates of B anchors, for these anchors and then their positives; no query is compared with itself."""
    everyone, rows = distributed.gather(anchors), candidates.rows
    before = len(candidates.own) + len(candidates.hard)
    itself = torch.cat([before + rows, rows])
    left_out = torch.zeros(len(itself), before + len(everyone), dtype=torch.bool, device=rows.device)
    return replace(
        candidates,
        apart=everyone,
        drawn_by_row=torch.cat([candidates.drawn_by_row, candidates.drawn_by_row]),
        rows=torch.cat([rows, rows]),
        positives=torch.cat([rows, before + rows]),
        left_out=left_out.scatter(1, itself[:, None], True),
    )
