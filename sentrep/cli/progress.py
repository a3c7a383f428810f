"""How far a run is: a bar on a terminal, lines in a log."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import rich.progress
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from rich.console import Console

from sentrep.reports.bars import progress_bar
from sentrep.reports.text import printable

_WITHOUT_END = 1000
"""Steps to a line of a run without validations whose end nobody knows."""


class Progress(ProgressBar):
    """A bar where standard output is a terminal; elsewhere a line for each validation, without carriage returns.

    A run without validations gets a line for each tenth of its steps. Lightning's bar of rich reads the loss at every
    step, which a GPU is waited for, and draws in a thread, which a data loader's processes would be forked beside.

    Args:
        refresh_rate: batches between two pictures of the bar; 0 shows neither bar nor lines.
    """

    def __init__(self, refresh_rate: int = 1) -> None:
        super().__init__()
        self._refresh_rate = refresh_rate
        self._bar: rich.progress.Progress | None = None
        self._tasks: dict[str, rich.progress.TaskID] = {}
        self._begun = 0.0
        self._told = 0

    def disable(self) -> None:
        """Show nothing, as in all processes but the first."""
        self._refresh_rate = 0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say what is trained."""
        sizes = {parameter: parameter.numel() for parameter in pl_module.parameters()}
        trained = sum(size for parameter, size in sizes.items() if parameter.requires_grad)
        rank_zero_info(f"{trained:,} of {sum(sizes.values()):,} parameters are trained")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock."""
        self._begun, self._told = time.monotonic(), trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Draw the bar; in a log, a line now and then where no validation gives one."""
        done, total = trainer.global_step, trainer.estimated_stepping_batches
        if self._is_due(batch_idx + 1):
            self._draw("Training", done, total, _metrics(trainer))
        often = max(1, total / 10) if total != math.inf else _WITHOUT_END
        if not sum(trainer.num_val_batches) and done - self._told >= often:
            self._tell(trainer)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Name the set, which is one batch."""
        if self._is_due():
            self._draw("Validating", dataloader_idx, len(trainer.num_val_batches), getattr(batch, "name", ""))

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Name the set, which is one batch."""
        if self._is_due():
            self._draw("Testing", dataloader_idx, len(trainer.num_test_batches), batch.name)

    def on_predict_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Count the batches."""
        if self._is_due(batch_idx):
            self._draw("Predicting", batch_idx, sum(trainer.num_predict_batches))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the sets' bar; in a log, a line for each validation of a training."""
        if trainer.state.fn != "fit":
            self._stop()
        elif not trainer.sanity_checking:
            if self._bar is not None and "Validating" in self._tasks:
                self._bar.remove_task(self._tasks.pop("Validating"))
            self._tell(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave the terminal to the reports."""
        self._stop()

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave the terminal to the reports."""
        self._stop()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Leave the terminal as it was."""
        self._stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave the terminal to the message."""
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._tasks = None, {}

    def _is_due(self, batches: int = 0) -> bool:
        """Whether a picture of the bar is: it costs a GPU a wait, as it shows the loss."""
        return self._refresh_rate > 0 and sys.stdout.isatty() and batches % self._refresh_rate == 0

    def _draw(self, what: str, done: float, total: float, note: str = "") -> None:
        if self._bar is None:
            self._bar = progress_bar(Console(), auto_refresh=False, transient=True)
            self._bar.start()
        shown: Any = {"completed": done, "total": None if total == math.inf else total, "note": printable(note)}
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, **shown)
        self._bar.update(self._tasks[what], **shown, refresh=True)

    def _tell(self, trainer: Trainer) -> None:
        if self._refresh_rate == 0 or sys.stdout.isatty():
            return
        self._told = trainer.global_step
        total = trainer.estimated_stepping_batches
        of = f"/{total:.0f}" if total != math.inf else ""
        seconds = time.monotonic() - self._begun
        print(f"step {self._told}{of}  {_metrics(trainer)}  {seconds // 60:.0f}:{seconds % 60:02.0f}", flush=True)


def _metrics(trainer: Trainer) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in trainer.progress_bar_metrics.items())
