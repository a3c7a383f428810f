"""What happens when a loss or a gradient is infinite or no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor
from torch.optim import Optimizer

from sentrep import checks
from sentrep.errors import InputError
from sentrep.stability.step_numbers import StepNumbers
from sentrep.types import StepTerms


class SkippedStep(Exception):  # noqa: N818 (control flow, not an error)
    """Raised out of an optimiser's closure to leave its step out; `SentRepModule.optimizer_step` catches it."""


class NonFiniteGuard(Callback):
    """Stops at, or skips, an optimiser step with a non-finite loss or gradient.

    The rows of the step's batch, of all processes, are written to ``nonfinite-step=<n>.json`` beside the logs.
    All processes decide alike: they add up their results.

    Nothing waits for a CUDA device in the default configuration. ``stop`` copies a step's result in the
    background and reads it after the next step's gradient has been queued: it detects a bad step one step late, after
    the weights have changed. A checkpoint is written only after the result has been read, so no checkpoint holds such
    weights; the last checkpoint before the step remains. On a CPU, and for ``skip``, the result is read before the
    step, and the weights never change; on CUDA ``skip`` therefore waits for the device once per step.

    With precision 16-mixed, overflowing gradients belong to the search for a loss scale, and the scaler skips these
    steps by itself: only the loss is checked.

    Args:
        action: ``stop`` ends the training with an error; ``skip`` skips the step: weights, optimiser state and
            the memory of samplers do not change, and the step and its learning rate count as done.
        max_skips: number of skipped steps in a row that ends the training.

    Attributes:
        skipped: number of skipped steps, including steps before a resume; logged as ``train/skipped_steps``.

    Raises:
        InputError: for ``max_skips`` below 1.

    Examples:
        >>> import lightning
        >>> from sentrep.stability import NonFiniteGuard
        >>> trainer = lightning.Trainer(callbacks=[NonFiniteGuard("skip")], logger=False, accelerator="cpu")
    """

    def __init__(self, action: Literal["stop", "skip"] = "stop", max_skips: int = 10) -> None:
        checks.at_least(self, 1, max_skips=max_skips)
        self.action = action
        self.max_skips = max_skips
        self.skipped = 0
        self._start()

    def _start(self) -> None:
        self._in_a_row, self._late, self._spoiled = 0, False, False
        self._step = StepNumbers()
        self._pending: StepNumbers | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find out where to write, and whether the device can be asked without waiting for it."""
        self._start()
        self._folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        self._late = self.action == "stop" and pl_module.device.type == "cuda"

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Remember the loss of one micro-batch, its rows, and which objectives it comes from."""
        found = (getattr(part, "terms", None) for part in pl_module.modules())  # `SentRepModule` may be a part
        self._step.add(loss, [terms for terms in found if isinstance(terms, StepTerms)])

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Judge the step to come or, on CUDA, the one before.

        Raises:
            InputError: training stops here.
            SkippedStep: the step is skipped.
        """
        self._judge_pending()
        step, self._step = self._step, StepNumbers(self._step.rows)
        step.measure(trainer.global_step + 1, optimizer if trainer.scaler is None else None)
        if self._late:
            step.send_to_host()
            self._pending = step
        elif self._is_bad(step) and trainer.scaler is None:
            raise SkippedStep

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Log the count."""
        if self.action == "skip":
            pl_module.log("train/skipped_steps", float(self.skipped))

    def on_train_end(self, *_: Any) -> None:
        """Judge the last step."""
        self._judge_pending()

    def on_save_checkpoint(self, *_: Any) -> None:
        """Judge the weights that would be saved."""
        self._judge_pending()

    def on_exception(self, trainer: Trainer, *_: Any) -> None:
        """Save nothing of a run whose weights are spoiled."""
        for saver in trainer.checkpoint_callbacks if self._spoiled else ():
            if isinstance(saver, ModelCheckpoint):
                saver.save_on_exception = False

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"skipped": self.skipped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue to count."""
        self.skipped = state_dict["skipped"]

    def _judge_pending(self) -> None:
        step, self._pending = self._pending, None
        if step is not None:
            self._is_bad(step)

    def _is_bad(self, step: StepNumbers) -> bool:
        problem = step.problem()
        self._in_a_row = self._in_a_row + 1 if problem else 0
        if problem is None:
            return False
        self._spoiled = self._late  # the step has been made
        file = step.write(self._folder)
        what, rows = f"step {step.number}: the {problem}", f"the rows of its batch are in {file}"
        if self.action == "stop":
            raise InputError(
                f"{what}, so training stops; {rows}; resume with --ckpt_path last and a lower learning rate, or leave "
                "such steps out with --guard.action skip"
            )
        if self._in_a_row > self.max_skips:
            raise InputError(f"{what}, after {self.max_skips} skipped steps in a row; {rows}; lower the learning rate")
        self.skipped += 1
        rank_zero_warn(f"{what}, so the step is skipped; {rows}")
        return True
