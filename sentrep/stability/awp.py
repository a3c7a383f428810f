"""Adversarial weight perturbation."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from sentrep import checks
from sentrep.stability.base import PerturbedWeights
from sentrep.types import OptimizerCallable


class AdversarialWeightPerturbation(PerturbedWeights):
    """AWP (Wu et al. 2020, eq. 8 to 12; thesis, 4.2): every layer is moved against the loss by a share γ of its norm.

        ε_l = γ ‖w_l‖ g_l / ‖g_l‖,  so that ‖ε_l‖ = γ ‖w_l‖

    ‖·‖ is the Frobenius norm of one weight matrix. As in the authors' code there is one step of ascent, and biases and
    norms (parameters of one dimension) are not perturbed. Unlike in their code, w is restored before the base optimiser
    steps, so that weight decay acts on w, and both gradients are of the same loss, without a proxy model. In the matrix
    of word embeddings only the rows of the batch's tokens have a gradient, so ε moves only these rows. The thesis's
    code scores and saves its model at w + ε, before it restores w; here checks and checkpoints see w.

    Combine it with `sentrep.views.GaussianNoise` or `sentrep.views.FGSM` on the input for the thesis's rows
    "AWP + GNI" and "AWP + FGSM" as in its text; its code never applies the noise.

    Args:
        params: parameters, or groups of them.
        base_optimizer: makes the optimiser that steps.
        gamma: γ > 0; 0.005 in the paper, for image classifiers. The thesis prints no value; its code has the same
            definition and ran with 3e-5, a value for fine-tuning.

    Raises:
        InputError: for γ ≤ 0.

    Examples:
        >>> import functools, torch
        >>> from sentrep.stability import AdversarialWeightPerturbation
        >>> w = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))
        >>> awp = AdversarialWeightPerturbation([w], functools.partial(torch.optim.SGD, lr=0.1), gamma=0.01)
        >>> awp.param_groups[0]["lr"]
        0.1
    """

    def __init__(self, params: ParamsT, base_optimizer: OptimizerCallable, gamma: float = 0.005) -> None:
        checks.positive("AdversarialWeightPerturbation", gamma=gamma)
        super().__init__(params, base_optimizer)
        self.gamma = gamma

    def perturbations(self) -> Iterator[tuple[Tensor, Tensor]]:
        """See `PerturbedWeights.perturbations`."""
        for parameter, gradient in self._with_gradient():
            if parameter.ndim > 1:
                size, slope = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(gradient)
                yield parameter, self.gamma * size / slope.clamp_min(1e-12) * gradient
