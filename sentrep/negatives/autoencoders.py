"""Variational autoencoders of sentence vectors: the one of the thesis's text, and the one of its code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sentrep.errors import InputError
from sentrep.functional import deviation
from sentrep.io.paths import check_plain, expanded

_DROPOUT = 0.5  # of the released code: torch's default
_PUBLISHED = {
    "encoder": "enc1",
    "bottleneck": "enc2",
    "mean": "to_z_mean",
    "spread": "to_z_var",
    "decoder": "dec1",
    "output": "dec2",
}
"""The layers' names in the file of weights that the released code starts from."""


class Autoencoder(nn.Module, ABC):
    """A network that is fitted to vectors and draws new ones; `sentrep.negatives.VAENegatives` has the formulas.

    Weights, noise and dropout come from the given generators; the global random state is left alone.
    """

    def observe(self, rows: Tensor) -> None:
        """Keep statistics of the rows (N, D) for the next fit."""

    @abstractmethod
    def forward(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of the rows (N, D), a scalar."""

    @abstractmethod
    def sample(self, number: int, generator: torch.Generator) -> Tensor:
        """New vectors (number, D), decoded from z ~ N(0, I)."""


class StandardisedVAE(Autoencoder):
    """The textbook's: standardised inputs, a unit-variance decoder, one hidden layer in the encoder and the decoder.

    Args:
        width: D of the vectors.
        hidden: width of the hidden layers.
        latent: width of z.
        generator: draws the first weights.
    """

    location: Tensor
    """(D,) mean of the rows."""
    scale: Tensor
    """(D,) deviation of the rows."""

    def __init__(self, width: int, hidden: int, latent: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = _layer(width, hidden, generator)
        self.posterior = _layer(hidden, 2 * latent, generator)
        self.decoder = _layer(latent, hidden, generator)
        self.output = _layer(hidden, width, generator)
        self.register_buffer("location", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def observe(self, rows: Tensor) -> None:
        """Keep mean and deviation of the rows; a dimension that does not vary keeps its mean."""
        self.location.copy_(rows.mean(0))
        self.scale.copy_(deviation(rows).clamp_min(1e-6))

    def forward(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """The negative evidence lower bound of the rows (N, D), up to a constant."""
        rows = (rows - self.location) / self.scale
        mean, log_variance = self.posterior(F.relu(self.encoder(rows))).chunk(2, dim=1)
        reconstruction = self._decode(mean + torch.exp(0.5 * log_variance) * _normal(len(rows), mean, generator))
        return (0.5 * (rows - reconstruction).square().sum(1) + _divergence(mean, log_variance)).mean()

    def sample(self, number: int, generator: torch.Generator) -> Tensor:
        """New vectors (number, D)."""
        return self.location + self.scale * self._decode(_normal(number, self.decoder.weight, generator))

    def _decode(self, latent: Tensor) -> Tensor:
        return self.output(F.relu(self.decoder(latent)))


class ReleasedVAE(Autoencoder):
    """The thesis's code: raw inputs, dropout of 0.5, and one layer's output as scale *and* as log-variance, a slip.

    Args:
        width: D of the vectors.
        hidden: width of the encoder's first hidden layer and of the decoder's.
        latent: width of the encoder's second hidden layer and of z.
        generator: draws the first weights.
    """

    def __init__(self, width: int, hidden: int, latent: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = _layer(width, hidden, generator)
        self.bottleneck = _layer(hidden, latent, generator)
        self.mean = _layer(latent, latent, generator)
        self.spread = _layer(latent, latent, generator)
        self.decoder = _layer(latent, hidden, generator)
        self.output = _layer(hidden, width, generator)

    def start_from(self, path: str | Path) -> None:
        """Take the weights of a file of the released code, as ``torch.save`` wrote it.

        Raises:
            InputError: the file cannot be read without running code, or its weights are of other sizes or non-finite.
        """
        found, own = _read(expanded(path)), dict(self.named_parameters())
        for name, parameter in own.items():
            layer, _, kind = name.rpartition(".")
            weight = found.get(published := f"{_PUBLISHED[layer]}.{kind}")
            if not isinstance(weight, Tensor) or weight.shape != parameter.shape or not weight.isfinite().all():
                raise InputError(
                    f"{path}: expected finite weights {published} of shape {tuple(parameter.shape)}; initial_weights "
                    "is for the file of the thesis's code, which has width 768, hidden 400 and latent 100"
                )
            parameter.data.copy_(weight)

    def forward(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of the rows (N, D): the squared error is a mean over dimensions, the divergence a sum."""
        hidden = _dropout(F.relu(self.encoder(rows)), generator)
        hidden = _dropout(F.relu(self.bottleneck(hidden)), generator)
        mean, spread = self.mean(hidden), self.spread(hidden)
        latent = mean + spread * _normal(len(rows), mean, generator)  # the slip: a scale here,
        divergence = _divergence(mean, spread).mean()  # a log-variance here
        return F.mse_loss(self._decode(latent, generator), rows) + divergence

    def sample(self, number: int, generator: torch.Generator) -> Tensor:
        """New vectors (number, D), with dropout as in training."""
        return self._decode(_normal(number, self.decoder.weight, generator), generator)

    def _decode(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        return self.output(_dropout(F.relu(self.decoder(latent)), generator))


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    check_plain(path)
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # torch raises half a dozen types
        raise InputError(
            f"{path}: no file of weights that can be read without running code ({type(error).__name__}); use another "
            "file"
        ) from error


def _divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, I)) of each row: (N, d) → (N,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


def _normal(number: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise (number, d) for a tensor (..., d): drawn in float32, whatever its precision."""
    return torch.randn(number, like.shape[-1], generator=generator, device=like.device).to(like.dtype)


def _dropout(x: Tensor, generator: torch.Generator) -> Tensor:
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= _DROPOUT
    return x * kept / (1 - _DROPOUT)


def _layer(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer that leaves the global random state alone."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
