"""Weights from another, frozen encoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sentrep import checks
from sentrep.encoder import FrozenEncoder
from sentrep.errors import InputError
from sentrep.functional import cosine_similarity_matrix
from sentrep.types import EncoderSpec, TextBatch, Views
from sentrep.weighting.base import PairWeighting
from sentrep.weighting.threshold import Kind, Threshold, removed


class ComplementaryWeighting(PairWeighting):
    """A frozen complementary model C, for example a trained SimCSE, takes out false negatives (DCLR, §4.2, eq. 5).

        α = 0 where sim_C(h_i, h⁻) ≥ φ, else 1

    For an in-batch negative sim_C is the cosine of C's own vectors of the two sentences. An extra negative has no
    sentence: with ``mask_noise`` it is compared, as the paper writes it, with C's vector of the anchor.

    The authors' released code departs from the paper, and we follow the paper: there noise is never masked
    (``mask_noise: false`` gives that); the weight multiplies the logit, so that a masked pair still adds exp(0); φ is
    applied to the cosine divided by 0.05; the loss is a binary cross-entropy over the softmax; C's vectors come from
    BERT's pooler, where we use the pooling and head that C's folder states. Unlike eq. 6 as printed, the denominator
    also holds the positive (`sentrep.functional.info_nce`).

    Args:
        model: C, as a model folder, a checkpoint or a hub id; it must share the trained encoder's tokenizer and prompt.
            The checkpoint holds its name and a fingerprint, never its weights.
        threshold: φ in [−1, 1]; 0.9 for BERT, 0.85 for RoBERTa in the paper.
        mask_noise: whether extra negatives are weighted too; needs a C as wide as they are (for large models, whose C
            is a base one, false).
        kind: ``hard`` (eq. 5) or ``soft`` weights; see `sentrep.weighting.threshold.Threshold`.
        softness: width of the soft threshold.

    Raises:
        InputError: for values out of range; at the first batch for a C that cannot be loaded, has another tokenizer or
            the wrong width; after a resume for a C that has changed.
    """

    def __init__(
        self, model: str, threshold: float, mask_noise: bool = True, kind: Kind = "hard", softness: float = 0.05
    ) -> None:
        super().__init__()
        checks.text(self, model=model)
        checks.flag(self, mask_noise=mask_noise)
        self.complementary = FrozenEncoder(model)
        self.weigh = Threshold(threshold, kind, softness)
        self.mask_noise = mask_noise

    def build(self, spec: EncoderSpec) -> None:
        """Take note of the trained encoder's vocabulary."""
        self.complementary.build(spec)

    @torch.no_grad()
    def forward(self, batch: TextBatch, views: Views, negatives: Tensor) -> Tensor:
        """See `PairWeighting.forward`."""
        anchors, keys = self.complementary.embed_pairs(batch)
        weights = self.weigh(cosine_similarity_matrix(anchors, keys))
        if len(negatives):
            weights = torch.cat([weights, self._extra(anchors, negatives)], dim=1)
        self.metrics = removed(weights, len(keys))
        return weights

    def _extra(self, anchors: Tensor, negatives: Tensor) -> Tensor:
        """(B, M) weights of negatives without a sentence."""
        if not self.mask_noise:
            return anchors.new_ones(len(anchors), len(negatives))
        if anchors.shape[1] != negatives.shape[1]:
            raise InputError(
                f"{self.complementary.model}: its vectors have {anchors.shape[1]} dimensions and the extra negatives "
                f"{negatives.shape[1]}, so it can judge sentences but no noise; set mask_noise: false beside model"
            )
        return self.weigh(cosine_similarity_matrix(anchors.to(negatives.dtype), negatives))

    def get_extra_state(self) -> dict[str, Any]:
        """A reference to the complementary model, for the checkpoint."""
        return self.complementary.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Remember which complementary model the checkpoint was trained with."""
        self.complementary.load_state(state)
