"""A small variational auto-encoder of past outputs (the thesis)."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from sentrep import checks
from sentrep.distributed import step_generator
from sentrep.functional import deviation
from sentrep.negatives.base import NegativeSampler, check_ratio, count, finite_rows
from sentrep.types import EncoderSpec


class VAENegatives(NegativeSampler):
    """M vectors decoded from N(0, I) by a VAE of the outputs of the last steps (thesis, "VAE sampling").

    After every optimiser step the anchors join the stored outputs of the last ``window`` steps, and some steps of Adam
    minimise the negative evidence bound over all of them (Kingma & Welling 2013; Gaussian decoder of variance 1):

        mean over x of  ½ ‖x − x̂(z)‖² + KL(N(μ(x), σ²(x)) ‖ N(0, I)),     z = μ(x) + σ(x) ε

    on outputs that are standardised with the window's mean and deviation per dimension. The thesis leaves sizes and
    training open. Nothing is drawn before the first update.

    The thesis's code takes 30 steps on the current batch before it draws: ``train_on="batch"``, ``hidden=400``,
    ``latent=100``, ``steps=30``. The fit is made twice then, for the draw and for what stays (0.3 s a step of 64 rows
    and width 384, 0.6 s of width 768, on one core of a CPU). What we leave out: there
    the network's output is used as scale and as log-variance, a slip; dropout, in the samples too; weights to start
    from that are not the encoder's. So the code's number cannot be made again.

    The weights are parameters without gradient, so that neither the main optimiser nor DDP takes them; they, Adam's
    state and the window are part of the checkpoint. Every process fits the same VAE. Anchors that are not finite are
    replaced by others of their batch (`finite_rows`).

    Args:
        latent: width of z.
        hidden: width of the one hidden layer on either side.
        window: number of past steps whose outputs are stored, for ``train_on="window"``.
        steps: Adam steps per optimiser step.
        learning_rate: Adam's.
        ratio: M as a multiple of the global batch.
        weight: λ ≥ 0.
        train_on: the ``window`` of past steps, or the current ``batch``.

    Raises:
        InputError: for values out of range.
    """

    location: Tensor
    """(D,) mean of the window."""
    scale: Tensor
    """(D,) deviation of the window."""

    def __init__(
        self,
        latent: int = 64,
        hidden: int = 256,
        window: int = 8,
        steps: int = 4,
        learning_rate: float = 1e-3,
        ratio: float = 1.0,
        weight: float = 1.0,
        train_on: Literal["window", "batch"] = "window",
    ) -> None:
        super().__init__(weight)
        checks.whole(self, 1, 10**7, latent=latent, hidden=hidden, window=window, steps=steps)
        checks.positive(self, learning_rate=learning_rate)
        check_ratio(self, ratio)
        checks.one_of(self, ("window", "batch"), train_on=train_on)
        self.latent = latent
        self.hidden = hidden
        self.window = window
        self.steps = steps
        self.learning_rate = learning_rate
        self.ratio = ratio
        self.train_on = train_on
        self._stored: list[Tensor] = []
        self._optimizer_state: dict[str, Any] | None = None

    def build(self, spec: EncoderSpec, stream: str) -> None:
        """Create the networks, from the run's seed."""
        super().build(spec, stream)
        generator = step_generator(spec.seed, f"{stream}/init", 0)
        self.network = _VAE(spec.embedding_dim, self.hidden, self.latent, generator).requires_grad_(False)
        self.register_buffer("location", torch.zeros(spec.embedding_dim))
        self.register_buffer("scale", torch.ones(spec.embedding_dim))

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M decoded draws (M, D); with a window none before the first update."""
        network, location, scale = self.network, self.location, self.scale
        if self.train_on == "batch":
            network = copy.deepcopy(network)
            location, scale, _ = self._fit(network, finite_rows(anchors.detach()))
        elif self.step == 0:
            return anchors.new_zeros(0, anchors.shape[1], dtype=torch.float32)
        shape = (count(anchors, self.ratio), self.latent)
        latent = torch.randn(shape, generator=self.generator(anchors.device), device=anchors.device).to(scale.dtype)
        with torch.autocast(anchors.device.type, enabled=False):
            return location + scale * network.decode(latent)

    def update(self, anchors: Tensor) -> None:
        """Store the anchors, and fit the VAE to the window; or fit it to them."""
        rows = finite_rows(anchors)
        if self.train_on == "window":
            past = [rows.to(anchors.device) for rows in self._stored]  # a checkpoint may have brought them elsewhere
            self._stored = [*past, rows][-self.window :]
            rows = torch.cat(self._stored)
        location, scale, self._optimizer_state = self._fit(self.network, rows)
        self.location.copy_(location)
        self.scale.copy_(scale)
        super().update(anchors)

    @torch.enable_grad()
    def _fit(self, network: _VAE, rows: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Some Adam steps on standardised rows, through leaves that share the weights' memory: no flag is touched.

        Returns:
            Mean and deviation (D,) of the rows, and Adam's state.
        """
        rows = rows.to(self.location.dtype)  # float64 in a module that was made so
        # a dimension that does not vary keeps its mean
        location, scale = rows.mean(0), deviation(rows).clamp_min(1e-6)
        weights = {name: p.detach().requires_grad_() for name, p in network.named_parameters()}
        optimizer = torch.optim.Adam(weights.values(), lr=self.learning_rate)
        if self._optimizer_state is not None:  # copied, because Adam writes into it; moved to the weights' device
            optimizer.load_state_dict(copy.deepcopy(self._optimizer_state))
        generator = step_generator(self.spec.seed, f"{self.stream}/fit", self.step, rows.device)
        with torch.autocast(rows.device.type, enabled=False):
            for _ in range(self.steps):
                noise = torch.randn(len(rows), self.latent, generator=generator, device=rows.device).to(rows.dtype)
                optimizer.zero_grad()
                functional_call(network, weights, ((rows - location) / scale, noise)).backward()
                optimizer.step()
        return location, scale, optimizer.state_dict()

    def get_extra_state(self) -> dict[str, Any]:
        """Step, stored outputs and Adam's state."""
        return {**super().get_extra_state(), "stored": self._stored, "optimizer": self._optimizer_state}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take step, stored outputs and Adam's state from a checkpoint."""
        super().set_extra_state(state)
        self._stored, self._optimizer_state = state["stored"], state["optimizer"]


class _VAE(nn.Module):
    """One hidden layer in the encoder, one in the decoder."""

    def __init__(self, width: int, hidden: int, latent: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = _layer(width, hidden, generator)
        self.posterior = _layer(hidden, 2 * latent, generator)
        self.decoder = _layer(latent, hidden, generator)
        self.output = _layer(hidden, width, generator)

    def forward(self, rows: Tensor, noise: Tensor) -> Tensor:
        """The negative evidence bound of ``rows`` (N, D), up to a constant; ``noise`` (N, latent) draws z."""
        mean, log_variance = self.posterior(F.relu(self.encoder(rows))).chunk(2, dim=1)
        reconstruction = self.decode(mean + torch.exp(0.5 * log_variance) * noise)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        return (0.5 * (rows - reconstruction).square().sum(1) + divergence).mean()

    def decode(self, latent: Tensor) -> Tensor:
        """Means of x (n, D) given z (n, latent)."""
        return self.output(F.relu(self.decoder(latent)))


def _layer(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer that leaves the global random state alone."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
