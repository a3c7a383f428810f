"""What the anchors of a step are compared with in a contrastive loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep import distributed
from sentrep.errors import InputError
from sentrep.functional.similarity import at_least_float32
from sentrep.negatives import NegativeSampler
from sentrep.types import Views


@dataclass
class Candidates:
    """The global batch's keys and what else every query is pushed away from, in the order of the columns.

    The queries are this process's B anchors, for NT-Xent followed by their B positives: Q rows.
    """

    own: Tensor
    """(N, D) what the sentences of all processes are to the others (`Views.key`), with gradient; (0, D) without
    in-batch negatives."""
    hard: Tensor
    """(N, D) their hard negatives, with gradient, or (0, D)."""
    apart: Tensor
    """Keys of a loss that needs more: (B, D) this process's positives where they are not among ``own``, (N, D) all
    anchors for NT-Xent, else (0, D); with gradient."""
    drawn: Tensor
    """(M, D) what samplers drew for all queries, float32 or float64; M may be 0."""
    drawn_by_row: Tensor
    """(Q, k, D) what they drew for each query alone, in NT-Xent for an anchor and its positive; k may be 0."""
    drawn_weights: Tensor | None
    """(M + k,) λ of each, or None where all are 1."""
    rows: Tensor
    """(Q,) which rows of ``own``, and of ``hard``, belong to the queries."""
    positives: Tensor
    """(Q,) the columns of the queries' positives."""
    left_out: Tensor | None
    """(Q, K) bool, pairs of a query and a key that are no part of the loss, or None."""

    @classmethod
    def gather(
        cls, views: Views, samplers: Iterable[NegativeSampler], in_batch: bool = True, nt_xent: bool = False
    ) -> Candidates:
        """From all processes, each tensor once; the samplers draw from what has been gathered.

        Args:
            views: this process's.
            samplers: of further negatives.
            in_batch: whether the other sentences of the batch are negatives.
            nt_xent: whether the positives are queries too, and the anchors keys.
        """
        own = distributed.gather(views.key)
        hard = own[:0] if views.negative is None else distributed.gather(views.negative)
        anchors = distributed.gather(views.anchor) if nt_xent else None
        known_keys = at_least_float32(own.detach())
        drawn = known_keys[:0], known_keys[:, None][:, :0], None
        if samplers := list(samplers):
            if (known := anchors) is None:
                wanted = any(sampler.with_gradient for sampler in samplers)
                known = distributed.gather(views.anchor if wanted else views.anchor.detach())
            drawn = _draw(samplers, at_least_float32(known), known_keys)
        rows = positives = distributed.own_rows(len(views.anchor), own.device)
        apart, left_out = own[:0], None
        if anchors is not None:
            apart = anchors
            rows, positives, left_out = _both_ways(rows, len(own), len(hard))
        elif not in_batch or views.second is not None:
            apart, own = views.positive, own if in_batch else own[:0]
            positives, left_out = _apart(rows, len(own), len(hard))
        shared, by_row, weights = drawn
        return cls(own, hard, apart, shared, by_row[rows], weights, rows, positives, left_out)

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
    """Columns of B positives that stand behind all others, and what is left out: own keys and others' positives."""
    positives = own + hard + torch.arange(len(rows), device=rows.device)
    left_out = positives[:, None] != positives
    kept = torch.zeros(len(rows), own + hard, dtype=torch.bool, device=rows.device)
    return positives, torch.cat([kept.scatter(1, rows[:, None], True) if own else kept, left_out], dim=1)


def _both_ways(rows: Tensor, own: int, hard: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns of the positives, and what is left out of NT-Xent: every query's comparison with itself."""
    other = own + hard + rows
    itself = torch.cat([other, rows])
    left_out = torch.zeros(len(itself), 2 * own + hard, dtype=torch.bool, device=rows.device)
    return torch.cat([rows, rows]), torch.cat([rows, other]), left_out.scatter(1, itself[:, None], True)


@torch.compiler.disable  # samplers count steps and seed generators, on the host
def _draw(samplers: list[NegativeSampler], anchors: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Negatives of all (M, D) and of each anchor (N, k, D), and their λ (M + k,) or None; anchors and keys: (N, D)."""
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
    if all(sampler.weight == 1.0 for sampler in samplers):
        return shared, by_row, None
    in_order = sorted(zip(samplers, parts, strict=True), key=lambda pair: pair[1].ndim)
    return shared, by_row, torch.cat([keys.new_full(part.shape[-2:-1], sampler.weight) for sampler, part in in_order])
