"""Draws from a variational autoencoder of past outputs (the thesis)."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import functional_call

from sentrep import checks
from sentrep.errors import InputError
from sentrep.negatives.autoencoders import Autoencoder, ReleasedVAE, StandardisedVAE
from sentrep.negatives.base import NegativeSampler, check_ratio, count, finite_rows
from sentrep.random import step_generator
from sentrep.types import EncoderSpec

_AUTOENCODERS: dict[str, type[StandardisedVAE | ReleasedVAE]] = {
    "standardised": StandardisedVAE,
    "released": ReleasedVAE,
}


class VAENegatives(NegativeSampler):
    """M vectors decoded from N(0, I) by a VAE of the outputs of the last steps (thesis, "VAE sampling").

    After every optimiser step the anchors join the stored outputs of the last ``window`` steps, and some steps of Adam
    minimise the negative evidence bound over all of them (Kingma & Welling 2013; Gaussian decoder of variance 1):

        mean over x of  ½ ‖x − x̂(z)‖² + KL(N(μ(x), σ²(x)) ‖ N(0, I)),     z = μ(x) + σ(x) ε

    on outputs that are standardised with the window's mean and deviation per dimension. The thesis gives no sizes and
    no training settings. Nothing is drawn before the first update.

    The thesis's code has another network, ``autoencoder="released"``, on outputs as they are:

        e = drop(relu(A drop(relu(B x)))),   μ = C e,   s = S e,   z = μ + s ε,   x̂(z) = E drop(relu(F z))
        mean over x of  ‖x − x̂(z)‖² / D + ½ Σ (μ² + exp(s) − 1 − s)

    with biases and a dropout of 0.5, also for draws. s is a scale in z but a log-variance in the divergence, an
    error of the code. The code takes 30 steps on the current batch before it draws: ``train_on="batch"``,
    ``hidden=400``, ``latent=100``, ``steps=30``. The fit then runs twice, for the draw and for the stored weights (per
    step of 64 rows 0.3 s at width 384, 0.6 s at width 768, on one core of a CPU).

    The code starts from trained weights, which are published (``vae_state/vae_state_dict.pt`` on the branch
    ``version_jw`` of github.com/JinwooPark0109/simCSE_customized_loss): give the file as ``initial_weights``. It fits
    encoders of width 768 only. Without the file the weights start at random, and the draws become similar, because the
    reconstruction error is a mean over dimensions and smaller than the divergence. On outputs of all-MiniLM-L6-v2
    followed by a random tanh layer of width 768 (mean cosine 0.34), the mean cosine of the draws goes from 0.85 to 0.97
    within 20 steps; from the published weights it goes from 0.36 to 0.59.

    The weights are parameters without gradient, so that the main optimiser and DDP ignore them. Weights, Adam's
    state and the window are part of the checkpoint. Every process fits the same VAE. Non-finite anchors are
    replaced by other anchors of their batch (`finite_rows`).

    Args:
        latent: width of z.
        hidden: width of the hidden layer next to the vectors, on either side.
        window: number of past steps whose outputs are stored, for ``train_on="window"``.
        steps: Adam steps per optimiser step.
        learning_rate: Adam's.
        ratio: M as a multiple of the global batch.
        weight: λ ≥ 0.
        train_on: the ``window`` of past steps, or the current ``batch``.
        autoencoder: ``standardised``, or the one of the ``released`` code.
        initial_weights: file of the weights that the released autoencoder starts from, read before its first fit; None
            for random weights. A resumed run does not need the file.

    Raises:
        InputError: for values out of range, for ``initial_weights`` of the standardised autoencoder, and when training
            starts for a file that cannot be read or has weights of other sizes.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import VAENegatives
        >>> sampler = VAENegatives(latent=4, hidden=8)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "vae")
        >>> sampler.after_step(torch.randn(4, 8))
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([4, 8])
    """

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
        autoencoder: Literal["standardised", "released"] = "standardised",
        initial_weights: str | None = None,
    ) -> None:
        super().__init__(weight)
        checks.at_least(self, 1, window=window, steps=steps)
        checks.positive(self, learning_rate=learning_rate)
        check_ratio(self, ratio)
        if initial_weights is not None and autoencoder != "released":
            raise InputError("VAENegatives: initial_weights are of the released autoencoder; set autoencoder: released")
        self.latent = latent
        self.hidden = hidden
        self.window = window
        self.steps = steps
        self.learning_rate = learning_rate
        self.ratio = ratio
        self.train_on = train_on
        self.autoencoder = autoencoder
        self.initial_weights = initial_weights
        self._started = initial_weights is None
        self._stored: list[Tensor] = []
        self._optimizer_state: dict[str, Any] | None = None

    def build(self, spec: EncoderSpec, stream: str) -> None:
        """Create the network, from the run's seed."""
        super().build(spec, stream)
        generator = step_generator(spec.seed, f"{stream}/init", 0)
        network = _AUTOENCODERS[self.autoencoder](spec.embedding_dim, self.hidden, self.latent, generator)
        self.network: Autoencoder = network.requires_grad_(False)

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M decoded draws (M, D); with a window none before the first update."""
        self._start()
        network = self.network
        if self.train_on == "batch":
            network = copy.deepcopy(network)
            self._fit(network, finite_rows(anchors.detach()))
        elif not self._stored:
            return anchors.new_zeros(0, anchors.shape[1], dtype=torch.float32)
        with torch.autocast(anchors.device.type, enabled=False):
            return network.sample(count(anchors, self.ratio), self.generator(anchors.device))

    def after_step(self, anchors: Tensor) -> None:
        """Store the anchors, and fit the VAE to the window; or fit it to them."""
        self._start()
        rows = finite_rows(anchors)
        if self.train_on == "window":
            past = [rows.to(anchors.device) for rows in self._stored]  # a checkpoint may have brought them elsewhere
            self._stored = [*past, rows][-self.window :]
            rows = torch.cat(self._stored)
        self._optimizer_state = self._fit(self.network, rows)

    def _start(self) -> None:
        """Read the initial weights once per run: a checkpoint has later ones, and loads where the file is absent."""
        if not self._started:
            assert isinstance(self.network, ReleasedVAE)
            assert self.initial_weights is not None
            self.network.start_from(self.initial_weights)
            self._started = True

    @torch.enable_grad()
    def _fit(self, network: Autoencoder, rows: Tensor) -> dict[str, Any]:
        """Take some Adam steps through leaves that share the weights' memory, so no flag is touched.

        Returns:
            Adam's state.
        """
        weights = {name: p.detach().requires_grad_() for name, p in network.named_parameters()}
        rows = rows.to(next(iter(weights.values())).dtype)  # float64 in a module that was made so
        network.observe(rows)
        optimizer = torch.optim.Adam(weights.values(), lr=self.learning_rate)
        if self._optimizer_state is not None:  # copied, because Adam writes into it; moved to the weights' device
            optimizer.load_state_dict(copy.deepcopy(self._optimizer_state))
        generator = step_generator(self.spec.seed, f"{self.stream}/fit", self.step, rows.device)
        with torch.autocast(rows.device.type, enabled=False):
            for _ in range(self.steps):
                optimizer.zero_grad()
                functional_call(network, weights, (rows, generator)).backward()
                optimizer.step()
        return optimizer.state_dict()

    def get_extra_state(self) -> dict[str, Any]:
        """Stored outputs, Adam's state, and whether the weights have started."""
        return {"stored": self._stored, "optimizer": self._optimizer_state, "started": self._started}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take all of this from a checkpoint."""
        self._stored, self._optimizer_state, self._started = state["stored"], state["optimizer"], state["started"]
