"""Noise moved to where the embeddings are crowded (DCLR)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sentrep import checks
from sentrep.functional import refine_noise
from sentrep.negatives.base import NegativeSampler, check_ratio, count


class RefinedNoiseNegatives(NegativeSampler):
    """M vectors from N(0, σ²), then some steps of ascent on the non-uniformity loss (DCLR, eq. 1–4).

    The gradient has a closed form; see `sentrep.functional.refine_noise`. No gradient flows into the encoder. σ has
    an effect: a step has the length β for vectors of any length.

    Args:
        ratio: k, M as a multiple of the global batch (the paper: 1 to 5, by backbone).
        std: σ > 0.
        steps: t of eq. 3; 0 is the variant *random noise* of table 2.
        step_size: β > 0 of eq. 3.
        temperature: τ_u > 0 of eq. 2; the paper's is the objective's temperature, so change both together.
        denominator: ``"noise"`` for eq. 2 as printed, ``"batch_and_noise"`` for the authors' released code.
        weight: λ ≥ 0.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import RefinedNoiseNegatives
        >>> sampler = RefinedNoiseNegatives(ratio=1)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "noise")
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([4, 8])
    """

    def __init__(
        self,
        ratio: float = 1.0,
        std: float = 1.0,
        steps: int = 4,
        step_size: float = 1e-3,
        temperature: float = 0.05,
        denominator: Literal["noise", "batch_and_noise"] = "noise",
        weight: float = 1.0,
    ) -> None:
        super().__init__(weight)
        check_ratio(self, ratio)
        checks.positive(self, std=std, step_size=step_size, temperature=temperature)
        checks.at_least(self, 0, steps=steps)
        self.ratio = ratio
        self.std = std
        self.steps = steps
        self.step_size = step_size
        self.temperature = temperature
        self.denominator: Literal["noise", "batch_and_noise"] = denominator

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """M refined draws (M, D)."""
        shape = (count(anchors, self.ratio), anchors.shape[1])
        noise = torch.randn(shape, generator=self.generator(anchors.device), device=anchors.device)
        return refine_noise(
            self.std * noise,
            anchors,
            keys,
            temperature=self.temperature,
            steps=self.steps,
            step_size=self.step_size,
            denominator=self.denominator,
        )
