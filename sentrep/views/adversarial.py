"""The perturbation that makes the contrastive loss worse."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks
from sentrep.random import rehearsed_draws
from sentrep.views.perturbation import ContrastiveLoss, Perturbation


class FGSM(Perturbation):
    """x + ε · sign(∂L/∂x), one step up the contrastive loss L (thesis, 4.1; Goodfellow et al. 2014, 2.3).

    The gradient is taken only with respect to ``x``: gradients of the parameters are neither computed nor changed, so
    DDP's hooks do not see the inner pass. On several processes L is the global
    batch's. At the encoder's input this costs one more forward and backward pass; at its output, no pass at all.

    Args:
        epsilon: ε ≥ 0, in units of ``x``; "very small" in the thesis, which prints no value. Its scripts have 3e-5 and
            1e-3.
        temperature: τ of L.
        descend: step down the loss, x − ε · sign(∂L/∂x): an error of the thesis's code at the input, on which its
            table 3 depends. The code also adds the parameters' gradients of the clean pass, which we do not.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from sentrep.views import FGSM
        >>> worse = FGSM(epsilon=0.1)(torch.zeros(1, 3), torch.ones(1).bool(), lambda x, temperature: x.sum())
        >>> worse
        tensor([[0.1000, 0.1000, 0.1000]])
    """

    def __init__(self, epsilon: float = 0.001, temperature: float = 0.05, descend: bool = False) -> None:
        checks.not_negative(self, epsilon=epsilon)
        super().__init__(epsilon)
        checks.positive(self, temperature=temperature)
        self.epsilon = epsilon
        self.temperature = temperature
        self.descend = descend

    def forward(self, x: Tensor, mask: Tensor, loss_fn: ContrastiveLoss) -> Tensor:
        """See `Perturbation.forward`; the step itself counts as a constant."""
        leaf = x.detach().requires_grad_()
        with torch.enable_grad(), rehearsed_draws(x.device):  # the step's own dropout: L is this step's loss
            loss = loss_fn(leaf, self.temperature)
        (gradient,) = torch.autograd.grad(loss, leaf)
        step = -self.epsilon if self.descend else self.epsilon
        return x + step * gradient.sign() * mask[..., None]
