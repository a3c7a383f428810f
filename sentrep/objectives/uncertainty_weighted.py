"""Weights of objectives that are trained along."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.encoder import EncoderServices
from sentrep.objectives.base import Objective, WeightedSum
from sentrep.types import EncoderSpec, TextBatch, TokenBatch, Views


class UncertaintyWeighted(Objective):
    """Several objectives, each weighted by a trained uncertainty (Kendall, Gal & Cipolla 2018, §3).

        L = Σ_k exp(−s_k) L_k + s_k,   s_k = log σ_k²

    This is twice the paper's form for Gaussian likelihoods, L_k / (2 σ_k²) + log σ_k. **Departure**: the terms here are
    not Gaussian likelihoods (the paper's form for a cross-entropy has s_k / 2), so that s_k is not the noise of the
    data but a balancing weight. When s_k has converged, exp(s_k) = L_k, and the gradient equals the gradient of
    Σ_k log L_k. All s_k start at 0, a plain sum. Do not use a term that can be negative
    (`sentrep.objectives.Uniformity`): L then has no minimum.

    Metrics: each L_k by its name, its weight exp(−s_k) as ``k/weight``, and the metrics of the terms as ``k/…``.

    Args:
        objectives: by name, each ≥ 0; None entries are left out.
        lr: learning rate of the s_k at its peak: with an encoder's, they would hardly move. Ours, as is its default.

    Raises:
        InputError: for no objective, and a rate that is not positive.

    Examples:
        >>> from sentrep.objectives import Alignment, Contrastive, UncertaintyWeighted
        >>> both = UncertaintyWeighted({"contrastive": Contrastive(), "alignment": Alignment()})
    """

    def __init__(self, objectives: dict[str, Objective | None], lr: float = 1e-3) -> None:
        super().__init__()
        checks.positive(self, lr=lr)
        self.parameter_options = {"lr": lr}
        self.sum = WeightedSum(objectives)
        self.reads_tokens = self.sum.need.tokens
        self.compiles = all(term.compiles for term in self.sum.terms.values())

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Build the terms, and start all weights at 1."""
        self.sum.build(spec, services)
        self.reads_layers = self.sum.need.layers
        self.log_variances = nn.Parameter(torch.zeros(len(self.sum.terms)))

    def extra_inputs(self, batch: TextBatch) -> dict[str, TokenBatch]:
        """The extra inputs of all terms."""
        return self.sum.extra_inputs(batch)

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        """L; see the class."""
        _, losses = self.sum(views, batch)
        weights = (-self.log_variances).exp()
        shown = {f"{name}/weight": weight for name, weight in zip(losses, weights.detach(), strict=True)}
        self.metrics = {**{name: loss.detach() for name, loss in losses.items()}, **shown, **self.sum.metrics()}
        return (weights * torch.stack(list(losses.values())) + self.log_variances).sum()

    def after_step(self, views: Views) -> None:
        """Pass the end of an optimiser step on."""
        self.sum.after_step(views)
