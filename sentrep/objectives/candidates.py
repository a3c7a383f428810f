"""What the anchors of a step are compared with in a contrastive loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from sentrep import distributed
from sentrep.functional.similarity import at_least_float32
from sentrep.negatives import NegativeSampler
from sentrep.types import Views


@dataclass
class Candidates:
    """The global batch's keys and what else every anchor is pushed away from, in the order of the columns."""

    own: Tensor
    """(N, D) the positives of all processes, with gradient."""
    hard: Tensor
    """(N, D) their hard negatives, with gradient, or (0, D)."""
    drawn: Tensor
    """(M, D) what samplers drew, without gradient, float32 or float64; M may be 0."""
    drawn_weights: Tensor | None
    """(M,) λ of each, or None where all are 1."""
    rows: Tensor
    """(B,) which rows of ``own``, and of ``hard``, belong to this process's anchors."""

    @classmethod
    def gather(cls, views: Views, samplers: Iterable[NegativeSampler]) -> Candidates:
        """From all processes, each tensor once; the samplers draw from what has been gathered."""
        anchor, own = views.anchor, distributed.gather(views.positive)
        hard = own[:0] if views.negative is None else distributed.gather(views.negative)
        drawn, weights = at_least_float32(own.detach()[:0]), None
        if samplers := list(samplers):
            drawn, weights = _draw(samplers, distributed.gather(anchor.detach()), own.detach())
        return cls(own, hard, drawn, weights, distributed.own_rows(len(anchor), anchor.device))

    @property
    def keys(self) -> Tensor:
        """(K, D) those that the encoder made: ``own``, then ``hard``."""
        return torch.cat([self.own, self.hard]) if len(self.hard) else self.own

    def __len__(self) -> int:
        return len(self.own) + len(self.hard) + len(self.drawn)

    def weights(self, pairs: Tensor | None, hard_bonus: float) -> Tensor | None:
        """Weights (B, K + M) on the exponentials of all columns; None where all are 1.

        Args:
            pairs: (B, N + M) weights of ``own`` and ``drawn`` (`PairWeighting.forward`); None for all 1.
            hard_bonus: on the logit of an anchor's own hard negative.
        """
        bonus = hard_bonus if len(self.hard) else 0.0
        if pairs is None and self.drawn_weights is None and not bonus:
            return None
        if pairs is None:
            pairs = self.drawn.new_ones(1, len(self.own) + len(self.drawn))  # one row for all
        own, drawn = pairs.to(self.drawn.dtype).split([len(self.own), len(self.drawn)], dim=1)
        if self.drawn_weights is not None:
            drawn = drawn * self.drawn_weights
        weights = torch.cat([own, own.new_ones(len(own), len(self.hard)), drawn], dim=1).expand(len(self.rows), -1)
        return weights.scatter(1, len(self.own) + self.rows[:, None], math.exp(bonus)) if bonus else weights


@torch.compiler.disable  # samplers count steps and seed generators, on the host
def _draw(samplers: list[NegativeSampler], anchors: Tensor, keys: Tensor) -> tuple[Tensor, Tensor | None]:
    """Negatives (M, D) and their λ (M,) or None, from anchors and keys (N, D)."""
    anchors, keys = at_least_float32(anchors), at_least_float32(keys)
    parts = [sampler.sample(anchors, keys).to(keys.dtype) for sampler in samplers]
    if all(sampler.weight == 1.0 for sampler in samplers):
        return torch.cat(parts), None
    weights = [rows.new_full((len(rows),), sampler.weight) for rows, sampler in zip(parts, samplers, strict=True)]
    return torch.cat(parts), torch.cat(weights)
