"""The contrastive objective: InfoNCE with exchangeable negatives and weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep import checks, distributed
from sentrep.config import check_initialised
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.functional.hardness import hardness
from sentrep.functional.similarity import at_least_float32, drawn_shares, info_nce
from sentrep.negatives import NegativeSampler
from sentrep.objectives.base import Objective
from sentrep.types import EncoderSpec, TextBatch, Views
from sentrep.weighting import OnlyExtraNegatives, PairWeighting


class Contrastive(Objective):
    """InfoNCE over the global batch (SimCSE, eq. 1 and, with hard negatives, eq. 5).

        ℓ_i = −log  exp(s(h_i, h_i⁺)) / ( Σ_j w_ij exp(s(h_i, h_j⁺)) + Σ_m w_im exp(s(h_i, n_m)) ),   s = cosine / τ

    j runs over the sentences of all processes. The extra negatives n_m are the corpus's hard negatives of all rows, and
    the draws of ``negatives``, for all anchors or for h_i alone. If the views have a second view (`Views.second`), its
    vectors are the in-batch negatives, and h_i⁺ is only the positive of its own anchor.

    Metrics: of the weighting; of drawn negatives ``hardness``, their mean cosine with their
    anchor, and ``harder_than_batch``, the share of these pairs whose cosine is above all cosines of the anchor with
    other sentences of the batch; and of each sampler ``dose/<sampler>``, the mean share of its draws in the softmax,
    and so in the gradient: below 1e-4 they do not act.

    Args:
        temperature: τ > 0.
        negatives: samplers of extra negatives, by name; None entries are ignored.
        weighting: weights w of the pairs, except negatives that are drawn for one anchor alone; None for all 1.
        label_smoothing: ε in [0, 1) of the cross-entropy.
        hard_negative_weight: bonus in [−80, 80] on the logit of a row's own hard negative (log space, 0 for no bonus).
            None leaves the corpus's hard negatives to another objective (`BidirectionalMargin`).
        block: rows of the similarity matrix in memory at a time; 0 for all, None to decide by its size
            (`sentrep.functional.info_nce`). Weights, if any, are a matrix of the same size.

    Raises:
        InputError: for values out of range, and where there is nothing to contrast with: for a batch of one sentence,
            or `OnlyExtraNegatives`, without extra negatives.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import Contrastive
        >>> x = torch.eye(3)
        >>> Contrastive(temperature=1.0)(Views(x, x, None, None, None), None)
        tensor(0.5514)
    """

    reads_tokens = False
    compiles = True

    def __init__(
        self,
        temperature: float = 0.05,
        negatives: dict[str, NegativeSampler | None] | None = None,
        weighting: PairWeighting | None = None,
        label_smoothing: float = 0.0,
        hard_negative_weight: float | None = 0.0,
        block: int | None = None,
    ) -> None:
        super().__init__()
        checks.positive(self, temperature=temperature)
        checks.share(self, label_smoothing=label_smoothing)
        bonus = checks.given(hard_negative_weight=hard_negative_weight)
        checks.within(self, -80, 80, **bonus)  # its exponential, in float32
        self.temperature = temperature
        self.block = block
        self.label_smoothing = label_smoothing
        self.hard_negative_weight = hard_negative_weight
        for name, plugin in [*_present(negatives).items(), ("weighting", weighting)]:
            check_initialised(plugin, name)
        self.negatives = nn.ModuleDict(_present(negatives))
        self.weighting = weighting

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build samplers and weighting."""
        for name, sampler in zip(self.negatives, self._samplers(), strict=True):
            sampler.build(spec, stream=f"{spec.name}.{name}".lstrip("."))
        if self.weighting is not None:
            self.weighting.build(spec, services)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """Mean of ℓ_i over this process's rows; see the class."""
        candidates, weights = self.compared(views, batch)
        return self.info_nce(views.anchor, candidates, weights)

    def candidates(self, views: Views) -> Candidates:
        """The vectors that every anchor is compared with; `metrics` begins with the hardness of the draws."""
        if self.hard_negative_weight is None:
            views = replace(views, negative=None)
        candidates = Candidates.gather(views, self._samplers())
        if len(candidates) == 1:
            empty = ", ".join(self.negatives)
            raise InputError(
                "a batch of one sentence has nothing to contrast with: raise data.batch_size"
                + (f", because {empty} gives nothing in the first step" if empty else ", or add negatives")
            )
        self.metrics = dict(candidates.hardness)
        return candidates

    def compared(self, views: Views, batch: TextBatch) -> tuple[Candidates, Tensor | None]:
        """What every anchor is compared with, and the weights of the pairs; None where all are 1."""
        candidates, pairs = self.candidates(views), None
        if isinstance(self.weighting, OnlyExtraNegatives) and not self.negatives and not len(candidates.hard):
            raise InputError("OnlyExtraNegatives leaves nothing to contrast with: add negatives")
        if self.weighting is not None:
            pairs = self.weighting(batch, views, candidates.drawn.detach())
            self.metrics |= self.weighting.metrics
        return candidates, candidates.weights(pairs, self.hard_negative_weight or 0.0)

    def info_nce(self, queries: Tensor, candidates: Candidates, weights: Tensor | None, margin: float = 0.0) -> Tensor:
        """Mean of ℓ_i over the queries; adds `doses` to `metrics`.

        Args:
            queries: (Q, D).
            candidates: what they are compared with.
            weights: of `Candidates.weights`.
            margin: m in [0, 90] degrees, added to the angle of every positive pair.
        """
        self.metrics |= self.doses(queries, candidates, weights, margin)
        return info_nce(
            queries,
            candidates.keys,
            temperature=self.temperature,
            positives=candidates.positives,
            negatives=candidates.drawn if len(candidates.drawn) else None,
            row_negatives=candidates.drawn_by_row,
            weights=weights,
            label_smoothing=self.label_smoothing,
            margin=margin,
            block=self.block,
        )

    def doses(
        self,
        queries: Tensor,
        candidates: Candidates,
        weights: Tensor | None,
        margin: float = 0.0,
        multiplied: bool = False,
    ) -> dict[str, Tensor]:
        """Each sampler's mean share of the softmax (`drawn_shares`), as ``dose/<sampler>``."""
        if not self.negatives:
            return {}
        shares = drawn_shares(
            queries,
            candidates.keys,
            temperature=self.temperature,
            positives=candidates.positives,
            negatives=candidates.drawn,
            row_negatives=candidates.drawn_by_row,
            weights=weights,
            margin=margin,
            multiplied=multiplied,
        )
        places = zip(self.negatives, candidates.places, strict=True)
        return {f"dose/{name}": shares[place].sum() for name, place in places}

    def after_step(self, views: Views) -> None:
        """Pass the end of an optimiser step on to the samplers, with the global batch's anchors."""
        if self.negatives:
            anchors = distributed.gather(views.anchor.detach())
            for sampler in self._samplers():
                sampler.after_step(anchors)

    def _samplers(self) -> Iterable[NegativeSampler]:
        return cast("Iterable[NegativeSampler]", self.negatives.values())


def _present(negatives: Mapping[str, NegativeSampler | None] | None) -> dict[str, NegativeSampler]:
    return {name: sampler for name, sampler in (negatives or {}).items() if sampler is not None}


@dataclass
class Candidates:
    """The global batch's keys and all further negatives of the Q queries, in the order of the columns.

    For `gather` the queries are this process's B anchors; `NTXent` adds the positives.
    """

    own: Tensor
    """(N, D) vectors of the sentences of all processes as negatives of others (`Views.key`), with gradient."""
    hard: Tensor
    """(N, D) their hard negatives, with gradient, or (0, D)."""
    apart: Tensor
    """Keys of a loss that needs more: (B, D) this process's positives where they are not among ``own``, (N, D) all
    anchors for `NTXent`, else (0, D); with gradient."""
    drawn: Tensor
    """(M, D) draws for all queries, float32 or float64; M may be 0."""
    drawn_by_row: Tensor
    """(Q, k, D) draws for each query alone; k may be 0."""
    drawn_weights: Tensor | None
    """(M + k,) λ of each, or None where all are 1."""
    rows: Tensor
    """(Q,) which rows of ``own``, and of ``hard``, belong to the queries."""
    positives: Tensor
    """(Q,) the columns of the queries' positives."""
    left_out: Tensor | None
    """(Q, K) bool, pairs of a query and a key that are no part of the loss, or None."""
    hardness: dict[str, Tensor]
    """Metrics of the samplers' draws for this process's anchors; empty without draws."""
    places: list[slice]
    """Of each sampler's draws among all M + k."""

    @classmethod
    def gather(cls, views: Views, samplers: Iterable[NegativeSampler]) -> Candidates:
        """Gather from all processes, each tensor once; the samplers draw from the gathered tensors."""
        own = distributed.gather(views.key)
        hard = own[:0] if views.negative is None else distributed.gather(views.negative)
        known_keys = at_least_float32(own.detach())
        rows = positives = distributed.own_rows(len(views.anchor), own.device)
        shared, by_row, weights = known_keys[:0], known_keys[:, None][:, :0], None
        metrics: dict[str, Tensor] = {}
        places: list[slice] = []
        if samplers := list(samplers):
            wanted = any(sampler.with_gradient for sampler in samplers)
            known = at_least_float32(distributed.gather(views.anchor if wanted else views.anchor.detach()))
            asking = views.anchor.detach()
            shared, by_row, weights, metrics, places = _draw(samplers, known, known_keys, asking, rows)
        apart, left_out = own[:0], None
        if views.second is not None:
            apart = views.positive
            positives, left_out = _apart(rows, len(own), len(hard))
        return cls(own, hard, apart, shared, by_row[rows], weights, rows, positives, left_out, metrics, places)

    @property
    def keys(self) -> Tensor:
        """(K, D) those that the encoder made: ``own``, ``hard``, then ``apart``."""
        parts = [part for part in (self.own, self.hard, self.apart) if len(part)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def __len__(self) -> int:
        return len(self.own) + len(self.hard) + len(self.drawn) + self.drawn_by_row.shape[1]

    def weights(self, pairs: Tensor | None, hard_bonus: float) -> Tensor | None:
        """Weights (Q, K + M + k) on the exponentials of all columns; None where all are 1.

        Args:
            pairs: (Q, N + M) weights of the sentences of the batch and of ``drawn`` (`PairWeighting.forward`), not of
                ``drawn_by_row``; None for all 1.
            hard_bonus: on the logit of an anchor's own hard negative.
        """
        bonus = hard_bonus if len(self.hard) else 0.0
        if pairs is None and self.drawn_weights is None and not bonus and self.left_out is None:
            return None
        if pairs is None:
            pairs = self.drawn.new_ones(1, len(self.own) + len(self.drawn))  # one row for all
        split = pairs.shape[1] - len(self.drawn)
        own, drawn = pairs[:, : len(self.own)].to(self.drawn.dtype), pairs[:, split:].to(self.drawn.dtype)
        by_row = self.drawn_by_row.shape[1]
        drawn = F.pad(drawn, (0, by_row), value=1.0)
        if self.drawn_weights is not None:
            drawn = drawn * self.drawn_weights
        further = own.new_ones(len(own), len(self.hard) + len(self.apart))
        weights = torch.cat([own, further, drawn], dim=1).expand(len(self.rows), -1)
        if bonus:
            weights = weights.scatter(1, len(self.own) + self.rows[:, None], math.exp(bonus))
        if self.left_out is not None:
            weights = weights.masked_fill(F.pad(self.left_out, (0, len(self.drawn) + by_row)), 0.0)
        return weights


def _apart(rows: Tensor, own: int, hard: int) -> tuple[Tensor, Tensor]:
    """Columns of B positives after all others, and the excluded pairs: own keys and others' positives."""
    positives = own + hard + torch.arange(len(rows), device=rows.device)
    left_out = positives[:, None] != positives
    kept = torch.zeros(len(rows), own + hard, dtype=torch.bool, device=rows.device)
    return positives, torch.cat([kept.scatter(1, rows[:, None], True), left_out], dim=1)


def _hardness(anchors: Tensor, keys: Tensor, own: Tensor, shared: Tensor, by_row: Tensor) -> dict[str, Tensor]:
    """The metrics of drawn negatives; see `hardness`."""
    if not len(shared) + by_row.shape[1]:
        return {}
    return dict(zip(("hardness", "harder_than_batch"), hardness(anchors, keys, own, shared, by_row), strict=True))


@torch.compiler.disable  # samplers count steps and seed generators, on the host
def _draw(
    samplers: list[NegativeSampler],
    anchors: Tensor,
    keys: Tensor,
    asking: Tensor,
    rows: Tensor,
) -> tuple[Tensor, Tensor, Tensor | None, dict[str, Tensor], list[slice]]:
    """Draw negatives, and measure them.

    Args:
        samplers: at least one.
        anchors: (N, D) of all processes.
        keys: (N, D) of all processes.
        asking: (B, D) this process's anchors.
        rows: (B,) their places among all.

    Returns:
        Negatives of all (M, D) and of each anchor (N, k, D), their λ (M + k,) or None, the metrics, and each sampler's
        place among the M + k.
    """
    parts = [
        sampler.sample(anchors if sampler.with_gradient else anchors.detach(), keys).to(keys.dtype)
        for sampler in samplers
    ]
    for sampler, part in zip(samplers, parts, strict=True):
        if part.ndim != 2 and (part.ndim != 3 or len(part) != len(keys)):
            raise InputError(
                f"{type(sampler).__name__}.sample returned a tensor of shape {tuple(part.shape)}; expected (M, D), for "
                f"all anchors, or ({len(keys)}, k, D), for each anchor of the global batch"
            )
    shared = torch.cat([keys[:0], *(part for part in parts if part.ndim == 2)])
    by_row = torch.cat([keys[:, None][:, :0], *(part for part in parts if part.ndim == 3)], dim=1)
    metrics = _hardness(asking, keys, rows, shared, by_row[rows])
    ends = {2: 0, 3: len(shared)}
    places = []
    for part in parts:
        start = ends[part.ndim]
        ends[part.ndim] += part.shape[-2]
        places.append(slice(start, ends[part.ndim]))
    if all(sampler.weight == 1.0 for sampler in samplers):
        return shared, by_row, None, metrics, places
    in_order = sorted(zip(samplers, parts, strict=True), key=lambda pair: pair[1].ndim)
    weights = torch.cat([keys.new_full(part.shape[-2:-1], sampler.weight) for sampler, part in in_order])
    return shared, by_row, weights, metrics, places
