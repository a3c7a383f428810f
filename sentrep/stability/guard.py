"""What happens when a loss or a gradient is infinite or no number."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
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
from sentrep.types import StepTerms


class SkippedStep(Exception):  # noqa: N818 (control flow, not an error)
    """Raised out of an optimiser's closure to leave its step out; `SentRepModule.optimizer_step` catches it."""


class _Step:
    """Losses, gradient and rows of one optimiser step; its numbers stay on the device until they are read."""

    def __init__(self, earlier: list[Tensor] | None = None) -> None:
        self._earlier = earlier or []
        self._own: list[Tensor] = []
        self._losses: list[Tensor] = []
        self._terms: dict[str, Tensor] = {}
        self._arrived: torch.cuda.Event | None = None

    @property
    def rows(self) -> list[Tensor]:
        """(B,) of each micro-batch; a further pass at perturbed weights has the rows of the pass before."""
        return self._own or self._earlier

    def add(self, loss: Tensor, found: Iterable[StepTerms]) -> None:
        """Note one micro-batch."""
        self._losses.append(loss.detach().float())
        for terms in found:
            self._own.append(terms.rows)
            for name, term in terms.losses.items():
                self._terms[name] = self._terms.get(name, 0) + term.detach().float()

    @torch.no_grad()
    def measure(self, number: int, optimizer: Optimizer | None) -> None:
        """Put loss, gradient norm (without an optimiser 0), number of bad processes and terms into one tensor."""
        self.number = number
        loss = torch.stack(self._losses).sum()
        groups = [] if optimizer is None else optimizer.param_groups
        gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        norm = get_total_norm(gradients).float() if gradients else torch.zeros_like(loss)
        bad = distributed.total((~torch.stack([loss, norm]).isfinite()).any().float())
        self._found = torch.stack([loss, norm, bad, *self._terms.values()])

    def send_to_host(self) -> None:
        """Copy the numbers in the background, from a CUDA device."""
        if self._found.device.type == "cuda":
            host = torch.empty(len(self._found), pin_memory=True)
            self._found = host.copy_(self._found, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def problem(self) -> str | None:
        """A description of the values that are not finite on any process, or None."""
        if self._arrived is not None:
            self._arrived.synchronize()  # of an earlier step: the device works on the next one meanwhile
        self.loss, self.norm, processes, *terms = self._found.tolist()
        if not processes:
            return None
        # another process may be the one that found something
        what = f"loss is {self.loss}" if not math.isfinite(self.loss) else f"gradient's norm is {self.norm}"
        bad = [name for name, term in zip(self._terms, terms, strict=True) if not math.isfinite(term)]
        return f"{what} (objective {', '.join(bad)})" if bad else what

    def write(self, folder: Path) -> Path:
        """Write the rows of all processes; every process must call it."""
        with torch.no_grad():
            rows = [distributed.gather(rows).tolist() for rows in self.rows]
        file = folder / f"nonfinite-step={self.number}.json"
        if distributed.rank() == 0:
            # as text: JSON has no NaN
            content = {"step": self.number, "loss": str(self.loss), "gradient_norm": str(self.norm), "rows": rows}
            write_text(file, json.dumps(content) + "\n")
        return file


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
        self._step = _Step()
        self._pending: _Step | None = None

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
            SkippedStep: the step is left out.
        """
        self._judge_pending()
        step, self._step = self._step, _Step(self._step.rows)
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
        if self._spoiled:
            withhold_checkpoints(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"skipped": self.skipped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue to count."""
        self.skipped = state_dict["skipped"]

    def _judge_pending(self) -> None:
        step, self._pending = self._pending, None
        if step is not None:
            self._spoiled = True  # if it raises, the step has been made
            self._is_bad(step)
            self._spoiled = False

    def _is_bad(self, step: _Step) -> bool:
        if (problem := step.problem()) is None:
            self._in_a_row = 0
            return False
        file, start = step.write(self._folder), f"step {step.number}"
        if self.action == "stop":
            raise InputError(
                f"{start}: the {problem}, so training stops; the rows of its batch are in {file}; resume with "
                "--ckpt_path last and a lower learning rate, or leave such steps out with --guard.action skip"
            )
        self.skipped += 1
        self._in_a_row += 1
        if self._in_a_row > self.max_skips:
            raise InputError(
                f"{start}: the {problem}, after {self.max_skips} steps in a row that were left out for the "
                f"same reason; the rows of the batch are in {file}; lower the learning rate"
            )
        rank_zero_warn(f"{start} is left out: the {problem}; the rows of its batch are in {file}")
        return True


def withhold_checkpoints(trainer: Trainer) -> None:
    """Keep the run's `ModelCheckpoint` from saving the state after an exception."""
    for saver in trainer.checkpoint_callbacks:
        if isinstance(saver, ModelCheckpoint):
            saver.save_on_exception = False
