"""Vectors whose first dimensions are vectors too."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from sentrep import checks
from sentrep.config import check_initialised
from sentrep.errors import InputError
from sentrep.objectives.base import Objective
from sentrep.objectives.weighted_sum import WeightedSum, own_views
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class Matryoshka(Objective):
    """Another objective on the first d dimensions of the vectors, for several d (Kusupati et al. 2022, eq. 1).

        L = Σ_d weight_d · L_d(first d dimensions of the views)

    A model so trained keeps most of its quality where vectors are cut: ``encode(truncate_dim=d)``. What is cut are the
    vectors that the objective sees: behind a projection head, that of the head. The head should be kept then, or left
    out, or else the dimensions of what is exported have no order.

    Each width has its own copy of the objective, with samplers, decoders and state of its own; what it adds to the
    encoder's pass is encoded once per width. Token states and vectors before the projection head are not cut.

    Metrics: those of the copies, as ``d64/…``, and each copy's loss, as ``d64``.

    Args:
        objective: on every width.
        dims: the widths d, each up to D.
        weights: of the widths, in their order; None for all 1, as in the paper.

    Raises:
        InputError: for values out of range, and for a width above the encoder's.
    """

    def __init__(self, objective: Objective, dims: list[int], weights: list[float] | None = None) -> None:
        super().__init__()
        checks.instance(self, Objective, objective=objective)
        check_initialised(objective, "objective")
        checks.each(self, int, dims=dims)
        checks.whole(self, 1, **{f"dims[{place}]": dim for place, dim in enumerate(dims)})
        if not dims or len(set(dims)) < len(dims):
            raise InputError(f"Matryoshka: dims must be widths that differ, got {dims}")
        if weights is not None and len(weights) != len(dims):
            raise InputError(f"Matryoshka: weights must be one number for each of the {len(dims)} dims, got {weights}")
        names = [f"d{dim}" for dim in dims]
        self.dims = dict(zip(names, dims, strict=True))
        copies = {name: copy.deepcopy(objective) for name in names}
        self.widths = WeightedSum(copies, None if weights is None else dict(zip(names, weights, strict=True)))
        self.reads_tokens, self.compiles = objective.reads_tokens, objective.compiles
        self.projects_extra = objective.projects_extra

    def build(self, spec: EncoderSpec) -> None:
        """Build each copy for its width."""
        if max(self.dims.values()) > spec.embedding_dim:
            raise InputError(
                f"Matryoshka: dims has {max(self.dims.values())}, above the width {spec.embedding_dim} of the vectors"
            )
        for name, objective in self._copies():
            objective.build(replace(spec, name=f"{spec.name}.{name}", embedding_dim=self.dims[name]))
        self.reads_layers = self.widths.need.layers

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """Those of each copy."""
        return self.widths.extra_inputs(batch)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """L; see the class."""
        losses = {name: objective(self._cut(views, name), batch) for name, objective in self._copies()}
        self.metrics = {**{name: loss.detach() for name, loss in losses.items()}, **self.widths.metrics()}
        return torch.stack(list(self.widths.weighted(losses).values())).sum()

    def after_step(self, views: Views) -> None:
        """Pass the end of an optimiser step on to each copy."""
        for name, objective in self._copies():
            objective.after_step(self._cut(views, name))

    def _copies(self) -> Iterable[tuple[str, Objective]]:
        return self.widths.terms.items()  # type: ignore[return-value]

    def _cut(self, views: Views, name: str) -> Views:
        """The views with the first dimensions of their vectors, as many as a copy has."""
        dim, own = self.dims[name], own_views(views, name)
        return Views(
            own.anchor[:, :dim],
            own.positive[:, :dim],
            None if own.negative is None else own.negative[:, :dim],
            own.anchor_output,
            own.positive_output,
            own.extra,
            projected={key: x[:, :dim] for key, x in own.projected.items()},
            second=None if own.second is None else own.second[:, :dim],
        )
