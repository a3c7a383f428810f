"""Weights by a threshold on the similarity of a pair: as another, frozen encoder sees it, or the trained one itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sentrep import checks, distributed
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional import cosine_similarity_matrix
from sentrep.types import EncoderSpec, TextBatch, Views
from sentrep.weighting.base import PairWeighting


class ComplementaryWeighting(PairWeighting):
    """A frozen complementary model C, for example a trained SimCSE, masks false negatives (DCLR, §4.2, eq. 5).

        α = 0 where sim_C(h_i, h⁻) ≥ φ, else 1

    For an in-batch negative, sim_C is the cosine of C's vectors of the two sentences. An extra negative has no
    sentence: with ``mask_noise`` it is compared with C's vector of the anchor, as in the paper.

    The authors' released code departs from the paper. Its weight multiplies the logit, so that a masked pair
    still adds exp(0), and its loss is a binary cross-entropy (`BinaryContrastive` does both). It never masks noise
    (``mask_noise: false``), and applies φ to cosine / 0.05 as 20 φ, which is equal. C's vectors are BERT's pooler
    output; we use the pooling and head of C's folder. We do not follow three errors: the released code
    passes no attention mask to either model, leaves C's dropout on, and selects checkpoints by the pooler's output.
    Eq. 6 as printed has no positive in the denominator; `Contrastive`, like all released code, includes it.

    Args:
        model: C, as a model folder, a checkpoint or a hub id; it must share the trained encoder's tokenizer and prompt.
            The checkpoint holds its name and a fingerprint, never its weights.
        threshold: φ in [−1, 1]; 0.9 for BERT, 0.85 for RoBERTa in the paper.
        mask_noise: whether extra negatives are weighted, too; C must have their width (set false for large models with
            a base-size C).

    Raises:
        InputError: for values out of range; when training starts, for a C that cannot be loaded, has another tokenizer
            or the wrong width; after a resume for a C that has changed.

    Examples:
        >>> from sentrep.objectives import Contrastive
        >>> from sentrep.weighting import ComplementaryWeighting
        >>> objective = Contrastive(weighting=ComplementaryWeighting("my-trained-simcse", threshold=0.9))
    """

    def __init__(self, model: str, threshold: float, mask_noise: bool = True) -> None:
        super().__init__()
        checks.within(self, -1, 1, threshold=threshold)
        self.model = model
        self.threshold = threshold
        self.mask_noise = mask_noise

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Ask for the complementary model."""
        self.complementary = services.frozen(self.model)

    @torch.no_grad()
    def forward(self, batch: TextBatch, views: Views, negatives: Tensor) -> Tensor:
        """See `PairWeighting.forward`."""
        anchors, keys = self.complementary.embed_pairs(batch)
        weights = _weights(anchors, keys, self.threshold)
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
        return _weights(anchors.to(negatives.dtype), negatives, self.threshold)

    def get_extra_state(self) -> dict[str, Any]:
        """A reference to the complementary model, for the checkpoint."""
        return self.complementary.state()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Remember which complementary model the checkpoint was trained with."""
        self.complementary.load_state(state)


class SelfWeighting(PairWeighting):
    """The model is its own complementary model: eq. 5 with the cosines of the loss (DCLR, table 2).

    Args:
        threshold: φ in [−1, 1].
        mask_noise: whether extra negatives are weighted too.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.weighting import SelfWeighting
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> SelfWeighting(threshold=0.9)(None, Views(x, x, None, None, None), torch.zeros(0, 2))
        tensor([[0., 0., 1.],
                [0., 0., 1.],
                [1., 1., 0.]])
    """

    def __init__(self, threshold: float, mask_noise: bool = True) -> None:
        super().__init__()
        checks.within(self, -1, 1, threshold=threshold)
        self.threshold = threshold
        self.mask_noise = mask_noise

    @torch.no_grad()
    def forward(self, batch: TextBatch, views: Views, negatives: Tensor) -> Tensor:
        """See `PairWeighting.forward`."""
        keys = distributed.gather(views.key)
        weights = _weights(views.anchor, keys, self.threshold)
        if len(negatives):
            extra = (
                _weights(views.anchor, negatives, self.threshold)
                if self.mask_noise
                else weights.new_ones(len(weights), len(negatives))
            )
            weights = torch.cat([weights, extra], dim=1)
        self.metrics = removed(weights, len(keys))
        return weights


def _weights(anchors: Tensor, others: Tensor, threshold: float) -> Tensor:
    """Eq. 5 of DCLR for (N, D) anchors and (M, D) others: (N, M), 0 where the cosine is at least the threshold."""
    return (cosine_similarity_matrix(anchors, others) < threshold).float()


def removed(weights: Tensor, keys: int) -> dict[str, Tensor]:
    """How much of the negatives a weighting takes away: the share of masked pairs.

    Args:
        weights: (B, N + M); the positives' places do not count.
        keys: N, the number of in-batch keys.

    Returns:
        ``masked`` over the in-batch negatives, where there are any, and ``masked_extra`` over the M others.
    """
    lost = 1 - weights
    in_batch = lost[:, :keys].scatter(1, distributed.own_rows(len(weights), weights.device)[:, None], 0.0)
    shares = {}
    if keys > 1:
        shares["masked"] = in_batch.sum() / (len(weights) * (keys - 1))
    if weights.shape[1] > keys:
        shares["masked_extra"] = lost[:, keys:].mean()
    return shares
