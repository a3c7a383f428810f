"""Closures that give the gradient of a whole optimiser step each time they are called."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from lightning.pytorch import LightningModule
from lightning.pytorch.strategies import ParallelStrategy
from torch.optim import LBFGS, Optimizer

from sentrep.types import TextBatch


def calls_again(optimizer: Optimizer) -> bool:
    """Whether an optimiser may call its closure more than once a step; of torch's own, LBFGS alone does."""
    return not type(optimizer).__module__.startswith("torch.optim.") or isinstance(optimizer, LBFGS)


class StepReplay:
    """Remembers the micro-batches of one optimiser step, to compute its gradient again at other weights.

    With gradient accumulation, Lightning's closure covers the last micro-batch only and adds to the gradients that are
    there. An optimiser that calls it twice would add the last micro-batch twice and never see the others again. The
    closure made here is exact: every further call zeroes the gradients and runs all micro-batches anew.

    Attributes:
        active: whether a call after the first is running.
    """

    def __init__(self) -> None:
        self.active = False
        self._batches: list[tuple[TextBatch, int]] = []

    def note(self, batch: TextBatch, batch_idx: int) -> None:
        """Remember a micro-batch of the step to come; the last one, too, before `closure`."""
        self._batches.append((batch, batch_idx))

    def closure(self, module: LightningModule, optimizer: Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
        """``closure`` for the first call, the gradient of the whole step in each further one.

        Args:
            module: in training; its ``training_step`` must depend on weights, batch and batch_idx alone.
            optimizer: whose gradients are zeroed.
            closure: Lightning's, for the last micro-batch.
        """
        earlier, self._batches = self._batches[:-1], []
        calls = 0

        def repeatable() -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                return closure()
            self.active = True
            try:
                optimizer.zero_grad()
                for batch, batch_idx in earlier:
                    _add_gradient(module, batch, batch_idx)
                return closure()
            finally:
                self.active = False

        return repeatable


def _add_gradient(module: LightningModule, batch: TextBatch, batch_idx: int) -> None:
    """What Lightning does for a micro-batch that does not end a step."""
    strategy = module.trainer.strategy
    with strategy.block_backward_sync() if isinstance(strategy, ParallelStrategy) else nullcontext():
        loss: Any = strategy.training_step(batch, batch_idx)
        strategy.backward(loss / module.trainer.accumulate_grad_batches, None)
