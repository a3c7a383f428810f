"""The mean of the training loss since the last log step."""

from __future__ import annotations

import torch
from torch import Tensor


class MeanLoss:
    """Adds up the losses of the steps since the last log step, on their device and without waiting for it.

    The mean leaves out earlier non-finite losses, because `NonFiniteGuard` may have skipped their steps.
    """

    def __init__(self) -> None:
        self._step = -1
        self._before = self._total = torch.zeros(2)
        """Sum and number of the losses: before the current step, and with its batches so far."""

    def add(self, loss: Tensor, step: int, every: int) -> Tensor:
        """Add the loss of a batch and return the mean, or the loss itself if it is not finite.

        Args:
            loss: a scalar without gradient.
            step: optimiser steps before this one; with accumulated gradients several batches have the same.
            every: steps from one log step to the next; 0 for none, and the mean is of the current step then.
        """
        if step != self._step:
            begins = every == 0 or step % every == 0
            self._before = torch.zeros_like(self._total) if begins else self._total
            self._step, self._total = step, self._before
        finite = loss.isfinite()
        self._total = self._total.to(loss.device) + torch.stack(
            [torch.where(finite, loss.float(), 0.0), finite.float()]
        )
        return torch.where(finite, self._total[0] / self._total[1], loss)

    def state(self, steps: int) -> Tensor:
        """Sum and number of the losses, for a checkpoint: a step that is not complete will be repeated.

        Args:
            steps: complete optimiser steps.
        """
        return self._total if steps > self._step else self._before

    def load(self, state: Tensor, steps: int) -> None:
        """Continue from a checkpoint.

        Args:
            state: of the checkpoint.
            steps: complete optimiser steps.
        """
        self._step, self._before, self._total = steps - 1, state, state
