"""The contrastive objective: InfoNCE with exchangeable negatives and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from sentrep import checks, distributed
from sentrep.config import check_initialised
from sentrep.errors import InputError
from sentrep.functional import info_nce
from sentrep.negatives import NegativeSampler
from sentrep.objectives.base import Objective
from sentrep.objectives.candidates import Candidates
from sentrep.types import EncoderSpec, TextBatch, Views
from sentrep.weighting import PairWeighting


class Contrastive(Objective):
    """InfoNCE over the global batch (SimCSE, eq. 1 and, with hard negatives, eq. 5).

        ℓ_i = −log  exp(s(h_i, h_i⁺)) / ( Σ_j w_ij exp(s(h_i, h_j⁺)) + Σ_m w_im exp(s(h_i, n_m)) ),   s = cosine / τ

    j runs over the sentences of all processes. The extra negatives n_m are the hard negatives of all rows, where the
    corpus has them, and whatever ``negatives`` draw, for all anchors or for h_i alone. Where the views bring a second
    view of their own (`Views.second`), that stands for the other sentences, and h_i⁺ for its own anchor alone.

    Args:
        temperature: τ > 0.
        negatives: samplers of extra negatives, by name; None entries are left out.
        weighting: weights w of the pairs, but for negatives that are drawn for one anchor alone; None for all 1.
        label_smoothing: ε in [0, 1) of the cross-entropy.
        hard_negative_weight: bonus in [−80, 80] on the logit of a row's own hard negative (log space, 0 for none).
        block: rows of the similarity matrix in memory at a time; 0 for all, None to decide by its size
            (`sentrep.functional.info_nce`). Weights, where there are any, are a matrix of that size too.
        in_batch: whether the other sentences of the batch are negatives; without them only n_m are.
        nt_xent: NT-Xent (SimCLR, eq. 1; ConSERT): all 2N anchors and positives are queries, and each is pushed away
            from the 2N − 2 that are neither it nor its partner. Extra negatives count in both directions.
        angular_margin: m in [0, 90] degrees, added to the angle of every positive pair (ArcCon of ArcCSE, Zhang et al.
            2022: 10): exp(cos(θ_ii + m) / τ) takes the place of exp(cos θ_ii / τ), above and below.
        hard_negatives: whether those of the corpus are negatives here; False leaves them to another objective
            (`BidirectionalMargin`).

    Raises:
        InputError: for values out of range, for a batch of one sentence without extra negatives, and for ``nt_xent``
            with a weighting of pairs, without the batch or with a second view.
    """

    reads_tokens = False
    compiles = True

    def __init__(
        self,
        temperature: float = 0.05,
        negatives: dict[str, NegativeSampler | None] | None = None,
        weighting: PairWeighting | None = None,
        label_smoothing: float = 0.0,
        hard_negative_weight: float = 0.0,
        block: int | None = None,
        in_batch: bool = True,
        nt_xent: bool = False,
        angular_margin: float = 0.0,
        hard_negatives: bool = True,
    ) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        checks.share(self, label_smoothing=label_smoothing)
        checks.within(self, -80, 80, hard_negative_weight=hard_negative_weight)  # its exponential, in float32
        checks.within(self, 0, 90, angular_margin=angular_margin)
        checks.whole(self, 0, **checks.given(block=block))
        checks.flag(self, in_batch=in_batch, nt_xent=nt_xent, hard_negatives=hard_negatives)
        checks.named(self, NegativeSampler, negatives=negatives or {})
        checks.instance(self, PairWeighting, **checks.given(weighting=weighting))
        if nt_xent and (weighting is not None or not in_batch):
            other = "in_batch false" if weighting is None else "weighting, which knows the pairs of anchor and positive"
            raise InputError(f"Contrastive: nt_xent does not go with {other}; leave one of them out")
        self.temperature = temperature
        self.block = block
        self.in_batch = in_batch
        self.nt_xent = nt_xent
        self.angular_margin = angular_margin
        self.hard_negatives = hard_negatives
        self.label_smoothing = label_smoothing
        self.hard_negative_weight = hard_negative_weight
        for name, plugin in [*_present(negatives).items(), ("weighting", weighting)]:
            check_initialised(plugin, name)
        self.negatives = nn.ModuleDict(_present(negatives))
        self.weighting = weighting

    def build(self, spec: EncoderSpec) -> None:
        """Build samplers and weighting."""
        for name, sampler in zip(self.negatives, self._samplers(), strict=True):
            sampler.build(spec, stream=name)
        if self.weighting is not None:
            self.weighting.build(spec)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        if self.nt_xent and views.second is not None:
            raise InputError("Contrastive: nt_xent does not go with a second view; set views.negatives to copies")
        if not self.hard_negatives:
            views = replace(views, negative=None)
        candidates = Candidates.gather(views, self._samplers(), self.in_batch, self.nt_xent)
        self._check(candidates)
        pairs = None
        if self.weighting is not None:
            pairs = self.weighting(batch, views, candidates.drawn.detach())
            self.metrics = dict(self.weighting.metrics)
        return info_nce(
            torch.cat([views.anchor, views.positive]) if self.nt_xent else views.anchor,
            candidates.keys,
            temperature=self.temperature,
            positives=candidates.positives,
            negatives=candidates.drawn if len(candidates.drawn) else None,
            row_negatives=candidates.drawn_by_row,
            weights=candidates.weights(pairs, self.hard_negative_weight),
            label_smoothing=self.label_smoothing,
            margin=self.angular_margin,
            block=self.block,
        )

    def after_step(self, views: Views) -> None:
        """Advance the samplers."""
        if self.negatives:
            anchors = distributed.gather(views.anchor.detach())
            for sampler in self._samplers():
                sampler.update(anchors)

    def _check(self, candidates: Candidates) -> None:
        """Refuse what has nothing to contrast with."""
        empty = ", ".join(self.negatives)
        if len(candidates) == 1 and self.in_batch:
            raise InputError(
                "a batch of one sentence has nothing to contrast with: raise data.batch_size"
                + (f", because {empty} gives nothing in the first step" if empty else ", or add negatives")
            )
        if len(candidates) == 0 and not empty:  # a bank is empty in the first step alone
            raise InputError("Contrastive: in_batch false leaves nothing to contrast with; add negatives")

    def _samplers(self) -> Iterable[NegativeSampler]:
        return self.negatives.values()  # type: ignore[return-value]


def _present(negatives: Mapping[str, NegativeSampler | None] | None) -> dict[str, NegativeSampler]:
    return {name: sampler for name, sampler in (negatives or {}).items() if sampler is not None}
