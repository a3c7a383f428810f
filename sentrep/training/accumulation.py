"""The last optimiser step of an epoch, where gradient accumulation has fewer micro-batches left than usual."""

from __future__ import annotations

from typing import Any

from torch import nn


def complete_last_window(trainer: Any, module: nn.Module) -> None:
    """Make the gradient of an epoch's shorter last optimiser step the mean over its own micro-batches.

    Lightning divides every loss by K = ``accumulate_grad_batches``, also where the epoch ends after k < K micro-batches
    of a step. The sum of these gradients is then k / K of their mean, and this function multiplies it by K / k.

    Args:
        trainer: whose newest backward pass has just ended; nothing changes unless it completes such a step.
        module: whose gradients are complete: all micro-batches, all processes.
    """
    loop, planned = trainer.fit_loop.epoch_loop, trainer.accumulate_grad_batches
    left = (loop.batch_idx + 1) % planned
    is_last = trainer.is_last_batch or loop.batch_idx + 1 == trainer.num_training_batches
    if left and is_last:
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(planned / left)
