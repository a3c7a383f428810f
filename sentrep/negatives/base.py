"""What every source of extra negatives has in common, and what several ask of a batch: how many, its sound rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.config import Configurable
from sentrep.functional.similarity import at_least_float32
from sentrep.random import step_generator
from sentrep.types import EncoderSpec


class NegativeSampler(Configurable, nn.Module, ABC):
    """A source of negatives, besides the other sentences of the batch.

    The draws depend on (seed, name, step) only, so they are the same on every rank, after a resume, and in each
    closure call of one step.

    Args:
        weight: λ ≥ 0 on the exponentials of these negatives (GS-InfoNCE, eq. 5).

    Attributes:
        with_gradient: whether `sample` gets the anchors with their gradient, and its draws carry the gradient.
        step: number of optimiser steps before this one, which `SentRepModule` sets: the same on every process and after
            a resume.

    Raises:
        InputError: for a negative weight.

    Examples:
        >>> import torch
        >>> from sentrep import NegativeSampler
        >>> class Opposite(NegativeSampler):
        ...     def sample(self, anchors, keys):
        ...         return -keys.mean(0, keepdim=True)
        >>> Opposite().sample(torch.eye(2), torch.eye(2))
        tensor([[-0.5000, -0.5000]])
    """

    with_gradient: bool = False

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        checks.not_negative(self, weight=weight)
        self.weight = weight
        self.step = 0

    def build(self, spec: EncoderSpec, stream: str) -> None:
        """Create tensors; called once, before training.

        Args:
            spec: the encoder's widths and the run's seed.
            stream: this sampler's name in the run, ``objective.sampler``; no two samplers draw the same numbers.
        """
        self.spec = spec
        self.stream = stream

    def generator(self, device: torch.device | str) -> torch.Generator:
        """The generator of this step's draw, on ``device``."""
        return step_generator(self.spec.seed, self.stream, self.step, device)

    @abstractmethod
    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """This step's negatives.

        Args:
            anchors: (N, D) anchors of the global batch, detached unless `with_gradient`.
            keys: (N, D) the sentences' vectors as negatives of each other (`sentrep.Views.key`), detached.

        Returns:
            float32, equal on every rank: (M, D) negatives of all anchors, M may be 0; or (N, k, D), k of each anchor
            alone (with NT-Xent of its positive too), which weightings of pairs do not see.
        """

    def after_step(self, anchors: Tensor) -> None:
        """Called once per optimiser step; ``anchors`` (N, D) are its global batch, detached."""


def count(anchors: Tensor, ratio: float) -> int:
    """M = ``ratio`` × global batch, rounded, at least 1."""
    return max(1, round(ratio * len(anchors)))


def finite_rows(rows: Tensor) -> Tensor:
    """``rows`` (N, D) in float32 or more, those with a NaN, an infinity or an overflowing norm replaced by other rows.

    One bad batch must not spoil a sampler's memory, and skipping rows would make the device wait for
    their number. So finite rows of the same batch replace the others, each equally often; if no
    row is finite, all are zero.

    Examples:
        >>> finite_rows(torch.tensor([[1.0], [torch.nan], [3.0]]))
        tensor([[1.],
                [1.],
                [3.]])
    """
    rows = at_least_float32(rows)
    sound = rows.square().sum(1).isfinite()
    number = torch.arange(len(rows), device=rows.device)
    sound_first = torch.argsort(sound.to(torch.int8), descending=True, stable=True)
    broken_before = (~sound).cumsum(0) - 1
    stand_in = sound_first[broken_before.clamp_min(0) % sound.sum().clamp_min(1)]
    rows = rows[torch.where(sound, number, stand_in)]
    return torch.where(sound.any(), rows, torch.zeros_like(rows))


def check_ratio(owner: object, ratio: float) -> None:
    """Refuse a number of negatives, as a multiple of the batch, that no memory holds.

    Raises:
        InputError: names the sampler's class.
    """
    checks.positive(owner, ratio=ratio)
    checks.within(owner, 0, 10_000, open_below=True, ratio=ratio)
