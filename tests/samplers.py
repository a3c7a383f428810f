"""One sampler of every kind, and data for them."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sentrep import negatives
from sentrep.encoder import EncoderServices
from sentrep.negatives import NegativeSampler
from sentrep.types import EncoderSpec
from support import tiny_encoder

WIDTH = 6

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian": ("GaussianNegatives", {"ratio": 1.5, "mean": 0.3, "std": 0.5}),
    "batch gaussian": ("BatchGaussianNegatives", {"ratio": 1.5}),
    "standard": ("BatchGaussianNegatives", {"use_mean": False, "use_std": False}),
    "multiplied": ("BatchGaussianNegatives", {"covariance": "multiplied"}),
    "full covariance": ("BatchGaussianNegatives", {"covariance": "full"}),
    "through the statistics": ("BatchGaussianNegatives", {"gradient": "all"}),
    "through the covariance": ("BatchGaussianNegatives", {"covariance": "multiplied", "gradient": "covariance"}),
    "refined": ("RefinedNoiseNegatives", {"ratio": 2.0, "step_size": 0.05}),
    "refined against the batch": ("RefinedNoiseNegatives", {"denominator": "batch_and_noise", "step_size": 0.05}),
    "bank": ("MemoryBank", {"size": 11}),
    "small bank": ("MemoryBank", {"size": 3}),
    "noisy anchor": ("NoisyAnchorNegatives", {"ratio": 1.5}),
    "mixture": ("GaussianMixtureNegatives", {"components": 3}),
    "full mixture": ("GaussianMixtureNegatives", {"components": 2, "covariance": "full", "decay": 0.5}),
    "refitted mixture": ("GaussianMixtureNegatives", {"components": 3, "covariance": "full", "window": 2}),
    "mixed": ("MixedNegatives", {}),
    "vae": ("VAENegatives", {"latent": 3, "hidden": 7, "window": 2}),
    "vae on the batch": ("VAENegatives", {"latent": 3, "hidden": 7, "train_on": "batch"}),
    "released vae": ("VAENegatives", {"latent": 3, "hidden": 7, "train_on": "batch", "autoencoder": "released"}),
}
DRAWN = [kind for kind, (name, _) in KINDS.items() if name != "MemoryBank"]  # with random numbers
REMEMBERING = ["bank", "small bank", "mixture", "full mixture", "vae"]  # drawing nothing before the first update


def built(kind: str, stream: str = "extra", seed: int = 5, **overrides: Any) -> Any:
    """A sampler of this kind, ready for embeddings of `WIDTH`."""
    name, arguments = KINDS[kind]
    sampler = getattr(negatives, name)(**{**arguments, **overrides})
    sampler.build(spec(seed), stream)
    return sampler


def advance(sampler: NegativeSampler, anchors: Tensor) -> None:
    """End an optimiser step, as `SentRepModule.end_step` does."""
    sampler.after_step(anchors)
    sampler.step += 1


def spec(seed: int = 5, width: int = WIDTH) -> EncoderSpec:
    """What a sampler is told of the encoder."""
    widths = {"embedding_dim": width, "hidden_size": width, "vector_dim": width}
    return replace(_encoder().spec(seed), **widths, vocab_size=100, frame=(0, 0))  # type: ignore[arg-type]


def services(seed: int = 5) -> EncoderServices:
    """What an objective may ask of the encoder."""
    return EncoderServices(_encoder(), seed)


_encoder = functools.cache(tiny_encoder)


def embeddings(step: int = 0, rows: int = 8, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    """Anchors and positives of one step: means and deviations differ by dimension, and dimensions vary together."""
    generator = torch.Generator().manual_seed(1000 + step)
    mixing = torch.randn(width, width, generator=torch.Generator().manual_seed(1))
    anchors = torch.randn(rows, width, generator=generator) @ mixing + torch.linspace(-2, 3, width)
    return anchors, anchors + 0.1 * torch.randn(rows, width, generator=generator)
