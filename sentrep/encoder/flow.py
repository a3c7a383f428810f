"""An invertible map of sentence vectors to a Gaussian (BERT-flow)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep import checks
from sentrep.encoder.modules import SentenceModule
from sentrep.functional.similarity import at_least_float32, linear
from sentrep.random import own_draws


class Flow(SentenceModule):
    """z = f(x), a Glow-like normalising flow on the vector (Li et al. 2020, BERT-flow; Kingma & Dhariwal 2018, Glow).

    Each step is an actnorm y = (x + b) ⊙ exp(s), a fixed permutation, and an affine coupling: with y = [y₁, y₂],

        z₁ = y₁,    z₂ = (y₂ + m) ⊙ σ(r + 2),    [m, r] = W₂ ReLU(W₁ y₁ + b₁) + b₂

    It is computed in float32. `sentrep.objectives.FlowLikelihood` trains it. Departures: random permutations are
    fixed, instead of Glow's 1×1 convolutions; an actnorm starts as the identity, not from the first batch's moments, so
    that the module does not depend on the first batch.

    Args:
        steps: of the flow.
        hidden: width of a coupling's hidden layer; None for D.
        seed: of the permutations.

    Raises:
        InputError: for fewer steps than 1.

    Examples:
        >>> import torch
        >>> from sentrep.encoder import Flow
        >>> flow = Flow(steps=2, hidden=8)
        >>> flow.build(width=4, std=0.02)
        >>> flow(torch.ones(3, 4), None, None).shape
        torch.Size([3, 4])
    """

    def __init__(self, steps: int = 8, hidden: int | None = None, seed: int = 0) -> None:
        super().__init__()
        checks.at_least(self, 1, steps=steps)
        self.steps, self.hidden, self.seed = steps, hidden, seed

    def build(self, width: int, std: float) -> None:
        """See `SentenceModule.build`; every step begins as a permutation, with the second half times σ(2)."""
        self.out_features = width
        with own_draws(self.seed, "flow"):
            self.layers = nn.ModuleList(_Step(width, self.hidden or width) for _ in range(self.steps))

    def forward(self, embedding: Tensor, token_states: Tensor, mask: Tensor) -> Tensor:
        """See `SentenceModule.forward`."""
        with torch.autocast(embedding.device.type, enabled=False):
            z = at_least_float32(embedding)
            for layer in self.layers:
                z = layer(z)
        return z

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """x = f⁻¹(z) (B, D), and log |det ∂f/∂x| there (B,).

        As a function of z and the parameters it has the right gradient, wherever z comes from: so the likelihood needs
        nothing of the pass but its vectors.
        """
        with torch.autocast(z.device.type, enabled=False):
            x = at_least_float32(z)
            log_det = x.new_zeros(len(x))
            for layer in reversed(self.layers):
                x, more = layer.inverse(x)  # type: ignore[operator]
                log_det = log_det + more
        return x, log_det

    def log_likelihood(self, z: Tensor) -> Tensor:
        """log N(f(x); 0, I) + log |det ∂f/∂x| (B,), for the x that z (B, D) comes from."""
        z = at_least_float32(z)
        normal = -0.5 * z.square().sum(1) - 0.5 * z.shape[1] * math.log(2 * math.pi)
        return normal + self.inverse(z)[1]


class _Step(nn.Module):
    """Actnorm, permutation, coupling."""

    permutation: Tensor

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("permutation", torch.randperm(width))
        self.first = width // 2
        self.inner, self.outer = nn.Linear(self.first, hidden), nn.Linear(hidden, 2 * (width - self.first))
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) → (B, D)."""
        y = ((x + self.shift) * self.log_scale.exp())[:, self.permutation]
        first, second = y[:, : self.first], y[:, self.first :]
        shift, log_scale = self._coupling(first)
        return torch.cat([first, (second + shift) * log_scale.exp()], dim=1)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` maps to z, and the log of its determinant there."""
        first, second = z[:, : self.first], z[:, self.first :]
        shift, log_scale = self._coupling(first)
        y = torch.cat([first, second * (-log_scale).exp() - shift], dim=1)[:, self.permutation.argsort()]
        return y * (-self.log_scale).exp() - self.shift, log_scale.sum(1) + self.log_scale.sum()

    def _coupling(self, first: Tensor) -> tuple[Tensor, Tensor]:
        shift, logit = linear(self.outer, linear(self.inner, first).relu()).chunk(2, dim=1)
        return shift, F.logsigmoid(logit + 2)
