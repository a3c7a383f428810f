"""The contrastive objective: InfoNCE with exchangeable negatives and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    corpus has them, and whatever ``negatives`` draw.

    Args:
        temperature: τ > 0.
        negatives: samplers of extra negatives, by name; None entries are left out.
        weighting: weights w of the pairs; None for all 1.
        label_smoothing: ε in [0, 1) of the cross-entropy.
        hard_negative_weight: bonus in [−80, 80] on the logit of a row's own hard negative (log space, 0 for none).
        block: rows of the similarity matrix in memory at a time; 0 for all, None to decide by its size
            (`sentrep.functional.info_nce`). Weights, where there are any, are a matrix of that size too.

    Raises:
        InputError: for values out of range, and for a batch of one sentence without extra negatives.
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
    ) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        checks.share(self, label_smoothing=label_smoothing)
        checks.within(self, -80, 80, hard_negative_weight=hard_negative_weight)  # its exponential, in float32
        checks.whole(self, 0, **checks.given(block=block))
        checks.named(self, NegativeSampler, negatives=negatives or {})
        checks.instance(self, PairWeighting, **checks.given(weighting=weighting))
        self.temperature = temperature
        self.block = block
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
        candidates = Candidates.gather(views, self._samplers())
        if len(candidates) == 1:
            empty = ", ".join(self.negatives)
            raise InputError(
                "a batch of one sentence has nothing to contrast with: raise data.batch_size"
                + (f", because {empty} gives nothing in the first step" if empty else ", or add negatives")
            )
        pairs = None
        if self.weighting is not None:
            pairs = self.weighting(batch, views, candidates.drawn)
            self.metrics = dict(self.weighting.metrics)
        return info_nce(
            views.anchor,
            candidates.keys,
            temperature=self.temperature,
            positives=candidates.rows,
            negatives=candidates.drawn if len(candidates.drawn) else None,
            weights=candidates.weights(pairs, self.hard_negative_weight),
            label_smoothing=self.label_smoothing,
            block=self.block,
        )

    def after_step(self, views: Views) -> None:
        """Advance the samplers."""
        if self.negatives:
            anchors = distributed.gather(views.anchor.detach())
            for sampler in self._samplers():
                sampler.update(anchors)

    def _samplers(self) -> Iterable[NegativeSampler]:
        return self.negatives.values()  # type: ignore[return-value]


def _present(negatives: Mapping[str, NegativeSampler | None] | None) -> dict[str, NegativeSampler]:
    return {name: sampler for name, sampler in (negatives or {}).items() if sampler is not None}
