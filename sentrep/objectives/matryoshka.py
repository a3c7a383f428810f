"""Vectors whose first dimensions are vectors too."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from torch import Tensor

from sentrep import checks
from sentrep.config import check_initialised
from sentrep.encoder import EncoderServices
from sentrep.errors import InputError
from sentrep.objectives.base import Objective, WeightedSum
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class Matryoshka(Objective):
    """Another objective on the first d dimensions of the vectors, for several d (Kusupati et al. 2022, eq. 1).

        L = Σ_d weight_d · L_d(first d dimensions of the views)

    A model trained this way keeps most of its quality when vectors are cut: ``encode(truncate_dim=d)``. The objective
    cuts the vectors after the projection head, which an export does not have. Remove the head (``model.head: null``) or
    put it among the encoder's modules, so that the exported dimensions are ordered.

    Each width has its own copy of the objective, with its own samplers, decoders, teachers and trained second encoders.
    Extra inputs are encoded once per width. Token states and vectors before the projection head are not cut.

    Metrics: each width's loss as ``d64``, and the metrics of its copy as ``d64/…``.

    Args:
        objective: on every width.
        dims: the widths d, each up to D.
        weights: of the widths, in their order; None for all 1, as in the paper.

    Raises:
        InputError: for values out of range, and for a width above the encoder's.

    Examples:
        >>> import torch
        >>> from sentrep import Views
        >>> from sentrep.objectives import Alignment, Matryoshka
        >>> x = torch.eye(3, requires_grad=True)
        >>> Matryoshka(Alignment(), dims=[1, 2])(Views(x, x, None, None, None), None).item()
        0.0
    """

    def __init__(self, objective: Objective, dims: list[int], weights: list[float] | None = None) -> None:
        super().__init__()
        check_initialised(objective, "objective")
        checks.at_least(self, 1, **{f"dims[{place}]": dim for place, dim in enumerate(dims)})
        if not dims or len(set(dims)) < len(dims):
            raise InputError(f"Matryoshka: dims must be widths that differ, got {dims}")
        if weights is not None and len(weights) != len(dims):
            raise InputError(f"Matryoshka: weights must be one number for each of the {len(dims)} dims, got {weights}")
        self.widest = max(dims)
        copies = {f"d{dim}": FirstDimensions(deepcopy(objective), dim) for dim in dims}
        self.widths = WeightedSum(copies, None if weights is None else dict(zip(copies, weights, strict=True)))
        self.reads_tokens, self.compiles = objective.reads_tokens, objective.compiles

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build each copy for its width."""
        if self.widest > spec.embedding_dim:
            raise InputError(f"Matryoshka: dims has {self.widest}, above the width {spec.embedding_dim} of the vectors")
        self.widths.build(spec, services)
        self.reads_tokens, self.reads_layers = self.widths.need.tokens, self.widths.need.layers

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The extra inputs of every width's copy."""
        return self.widths.extra_inputs(batch)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """L; see the class."""
        total, losses = self.widths(views, batch)
        self.metrics = {**{name: loss.detach() for name, loss in losses.items()}, **self.widths.metrics()}
        return total

    def after_step(self, views: Views) -> None:
        """Pass the end of an optimiser step on."""
        self.widths.after_step(views)


class FirstDimensions(Objective):
    """One width of `Matryoshka`: an objective that sees the first ``dim`` dimensions of the vectors."""

    def __init__(self, objective: Objective, dim: int) -> None:
        super().__init__()
        self.objective, self.dim = objective, dim

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build the objective for the narrower vectors."""
        self.objective.build(replace(spec, embedding_dim=self.dim), services.first_dimensions(self.dim))
        self.reads_tokens, self.reads_layers = self.objective.reads_tokens, self.objective.reads_layers
        self.projects_extra = self.objective.projects_extra

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The objective's."""
        return self.objective.extra_inputs(batch)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """The objective's value for the cut vectors."""
        loss: Tensor = self.objective(self._cut(views), batch)
        self.metrics = self.objective.metrics
        return loss

    def after_step(self, views: Views) -> None:
        """Pass the end of an optimiser step on."""
        self.objective.after_step(self._cut(views))

    def _cut(self, views: Views) -> Views:
        dim = self.dim
        return replace(
            views,
            anchor=views.anchor[:, :dim],
            positive=views.positive[:, :dim],
            negative=None if views.negative is None else views.negative[:, :dim],
            second=None if views.second is None else views.second[:, :dim],
            projected={key: vectors[:, :dim] for key, vectors in views.projected.items()},
        )
