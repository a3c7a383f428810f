"""Sharpness-aware minimisation."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from sentrep import checks
from sentrep.stability.base import PerturbedWeights
from sentrep.types import OptimizerCallable


class SAM(PerturbedWeights):
    """Sharpness-aware minimisation (Foret et al. 2021, eq. 2 with p = 2): one climb of length ρ over all weights.

        ε = ρ g / ‖g‖₂;   adaptive (ASAM, Kwon et al. 2021):  ε = ρ w² g / ‖ |w| g ‖₂, element by element

    ‖·‖ runs over all parameters together. ASAM's small constant added to |w| is left out.

    Args:
        params: parameters, or groups of them.
        base_optimizer: makes the optimiser that steps.
        rho: ρ > 0; 0.05 in the paper and the thesis. With ``adaptive`` use about ten times as much.
        adaptive: measure ε relative to the size of each weight.

    Raises:
        InputError: for ρ ≤ 0.

    Examples:
        >>> import functools
        >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        >>> sam = SAM([w], functools.partial(torch.optim.SGD, lr=0.1), rho=0.5)
        >>> def closure():
        ...     sam.zero_grad()
        ...     loss = w.square().sum() / 2
        ...     loss.backward()
        ...     return loss
        >>> sam.step(closure).item()  # then w − 0.1 (w + 0.5 w / ‖w‖)
        12.5
        >>> w.data
        tensor([2.6700, 3.5600])
    """

    def __init__(
        self, params: ParamsT, base_optimizer: OptimizerCallable, rho: float = 0.05, adaptive: bool = False
    ) -> None:
        checks.positive("SAM", rho=rho)
        super().__init__(params, base_optimizer)
        self.rho = rho
        self.adaptive = adaptive

    def perturbations(self) -> Iterator[tuple[Tensor, Tensor]]:
        """See `PerturbedWeights.perturbations`."""
        reached = self._with_gradient()
        if not reached:
            return
        norms = [torch.linalg.vector_norm(self._size(parameter) * gradient) for parameter, gradient in reached]
        scale = self.rho / torch.linalg.vector_norm(torch.stack(norms)).clamp_min(1e-12)
        for parameter, gradient in reached:
            yield parameter, self._size(parameter) ** 2 * gradient * scale

    def _size(self, parameter: Tensor) -> Tensor | float:
        return parameter.abs() if self.adaptive else 1.0
