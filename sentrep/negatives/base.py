"""What every source of extra negatives has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.config import Configurable
from sentrep.distributed import step_generator
from sentrep.types import EncoderSpec


class NegativeSampler(Configurable, nn.Module, ABC):
    """A source of vectors that anchors are pushed away from, besides the other sentences of the batch.

    What is drawn depends on (seed, name, step) alone, so it is the same on every rank, after a resume, and in each
    closure call of one step. The step advances in `update`, once per optimiser step, and is part of the checkpoint.

    Args:
        weight: λ ≥ 0 on the exponentials of these negatives (GS-InfoNCE, eq. 5).

    Attributes:
        with_gradient: whether `sample` gets the anchors with their gradient, and what it draws carries it.

    Raises:
        InputError: for a negative weight.
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
            stream: this sampler's name in the run; two samplers of one kind draw different numbers.
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
            keys: (N, D) what they are to each other in the batch (`sentrep.Views.key`), detached.

        Returns:
            float32, equal on every rank: (M, D) negatives of all anchors, M may be 0; or (N, k, D), k of each anchor
            alone (with NT-Xent of its positive too), which weightings of pairs do not see.
        """

    def update(self, anchors: Tensor) -> None:
        """Take note of a finished optimiser step; ``anchors`` (N, D) are its global batch, detached."""
        self.step += 1

    def get_extra_state(self) -> dict[str, Any]:
        """The step, for the checkpoint."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take the step from a checkpoint."""
        self.step = state["step"]
