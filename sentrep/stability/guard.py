"""What happens when a loss or a gradient is infinite or no number."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from sentrep import checks, distributed
from sentrep.errors import InputError
from sentrep.io.files import write_text
from sentrep.types import StepTerms, TextBatch


class SkippedStep(Exception):  # noqa: N818 (control flow, not an error)
    """Raised out of an optimiser's closure to leave its step out; `SentRepModule.optimizer_step` catches it."""


@dataclass
class _Step:
    number: int
    """Which optimiser step it is, from 1."""
    rows: list[Tensor]
    """Rows of the corpus, (B,) for each micro-batch."""
    found: Tensor
    """Sum of the losses, norm of the gradients, number of processes where one of them is not finite, and the sum of
    each objective's losses: (3 + K,)."""
    objectives: list[str]
    """Names of the K objectives; none where the module does not tell its terms."""
    arrived: torch.cuda.Event | None = None
    """The moment from which ``found`` is on the host."""


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
        checks.one_of(self, ("stop", "skip"), action=action)
        checks.whole(self, 1, max_skips=max_skips)
        self.action = action
        self.max_skips = max_skips
        self.skipped = 0
        self._start()

    def _start(self) -> None:
        self._in_a_row = 0
        self._rows: list[Tensor] = []
        self._losses: list[Tensor] = []
        self._terms: dict[str, Tensor] = {}
        self._stepped = False
        self._late = False
        self._spoiled = False
        self._pending: _Step | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find out where to write, and whether the device can be asked without waiting for it."""
        self._start()
        self._folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        self._late = self.action == "stop" and pl_module.device.type == "cuda"

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Remember the loss of one micro-batch, its rows, and which objectives it comes from."""
        self._losses.append(loss.detach())
        for part in pl_module.modules():  # a `SentRepModule` may be a part of another module
            terms: Any = getattr(part, "terms", None)
            if not isinstance(terms, StepTerms):
                continue
            if self._stepped:
                self._rows, self._stepped = [], False
            self._rows.append(terms.rows)
            for name, term in terms.losses.items():
                self._terms[name] = self._terms.get(name, 0) + term.detach().float()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Judge the step to come or, on CUDA, the one before.

        Raises:
            InputError: training stops here.
            SkippedStep: the step is left out.
        """
        self._judge_pending()
        step = _Step(trainer.global_step + 1, self._rows, self._find(trainer, optimizer), list(self._terms))
        self._losses, self._terms, self._stepped = [], {}, True
        if self._late:
            self._pending = _copy_to_host(step)
        elif self._is_bad(step) and trainer.scaler is None:
            raise SkippedStep

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TextBatch, batch_idx: int
    ) -> None:
        """Log the count."""
        if self.action == "skip":
            pl_module.log("train/skipped_steps", float(self.skipped))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Judge the last step."""
        self._judge_pending()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Judge the weights that would be saved."""
        self._judge_pending()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Save nothing of a run whose weights are spoiled."""
        if self._spoiled:
            withhold_checkpoints(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"skipped": self.skipped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self.skipped = state_dict["skipped"]

    @torch.no_grad()
    def _find(self, trainer: Trainer, optimizer: Optimizer) -> Tensor:
        """See `_Step.found`; stays on the device."""
        loss = torch.stack([loss.float() for loss in self._losses]).sum()
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.zeros_like(loss)
        if trainer.scaler is None and gradients:
            norm = get_total_norm(gradients).float()
        found = torch.stack([loss, norm])
        processes = distributed.total((~found.isfinite()).any().float().reshape(1))
        return torch.cat([found, processes, *(term.reshape(1) for term in self._terms.values())])

    def _judge_pending(self) -> None:
        step, self._pending = self._pending, None
        if step is not None:
            if step.arrived is not None:
                step.arrived.synchronize()  # of the step before: the device has this one to work on meanwhile
            self._spoiled = True  # if it raises, the step has been made
            self._is_bad(step)
            self._spoiled = False

    def _is_bad(self, step: _Step) -> bool:
        loss, norm, processes, *terms = step.found.tolist()
        if not processes:
            self._in_a_row = 0
            return False
        # another process may be the one that found something
        what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient's norm is {norm}"
        if bad := [name for name, term in zip(step.objectives, terms, strict=True) if not math.isfinite(term)]:
            what += f" (objective {', '.join(bad)})"
        file = self._write(step, loss, norm)
        if self.action == "stop":
            raise InputError(
                f"step {step.number}: the {what}, so training stops; the rows of its batch are in {file}; go on with "
                "--ckpt_path last and a lower learning rate, or leave such steps out with --guard.action skip"
            )
        self.skipped += 1
        self._in_a_row += 1
        if self._in_a_row > self.max_skips:
            raise InputError(
                f"step {step.number}: the {what}, after {self.max_skips} steps in a row that were left out for the "
                f"same reason; the rows of the batch are in {file}; lower the learning rate"
            )
        rank_zero_warn(f"step {step.number} is left out: the {what}; the rows of its batch are in {file}")
        return True

    def _write(self, step: _Step, loss: float, norm: float) -> Path:
        with torch.no_grad():
            rows = [distributed.gather(rows).tolist() for rows in step.rows]
        file = self._folder / f"nonfinite-step={step.number}.json"
        if distributed.rank() == 0:
            # as text: JSON has no NaN
            content = {"step": step.number, "loss": str(loss), "gradient_norm": str(norm), "rows": rows}
            write_text(file, json.dumps(content) + "\n")
        return file


def withhold_checkpoints(trainer: Trainer) -> None:
    """Keep the run's `ModelCheckpoint` from saving the state after an exception."""
    for saver in trainer.checkpoint_callbacks:
        if isinstance(saver, ModelCheckpoint):
            saver.save_on_exception = False


def _copy_to_host(step: _Step) -> _Step:
    if step.found.device.type != "cuda":
        return step
    host = torch.empty(len(step.found), pin_memory=True)
    host.copy_(step.found, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()
    return _Step(step.number, step.rows, host, step.objectives, arrived)
