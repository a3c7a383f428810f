"""How far a run is: Lightning's bar on a terminal, lines in a log."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.utilities.rank_zero import rank_zero_info

_WITHOUT_END = 1000
"""Steps to a line of a run without validations whose end nobody knows."""


class Progress(TQDMProgressBar):
    """A bar where standard output is a terminal; elsewhere a line for each validation, without carriage returns.

    A run without validations gets a line for each tenth of its steps.

    Args:
        refresh_rate: batches between two pictures of the bar, each of which reads the loss; 0 shows neither bar nor
            lines.
    """

    def __init__(self, refresh_rate: int = 1) -> None:
        self._has_lines = refresh_rate > 0 and not sys.stdout.isatty()
        super().__init__(0 if self._has_lines else refresh_rate)
        self._begun = 0.0
        self._told = 0

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        """Lightning's without the number of the run's folder."""
        return dict(trainer.progress_bar_metrics)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the number of trained parameters."""
        sizes = {parameter: parameter.numel() for parameter in pl_module.parameters()}
        trained = sum(size for parameter, size in sizes.items() if parameter.requires_grad)
        rank_zero_info(f"{trained:,} of {sum(sizes.values()):,} parameters are trained")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock."""
        super().on_train_start(trainer, pl_module)
        self._begun, self._told = time.monotonic(), trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move the bar; in a log, write a line now and then where no validation gives one."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        total = trainer.estimated_stepping_batches
        often = max(1, total / 10) if total != math.inf else _WITHOUT_END
        if not sum(trainer.num_val_batches) and trainer.global_step - self._told >= often:
            self._tell(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the bar of the sets; in a log, write a line for each validation of a training."""
        super().on_validation_end(trainer, pl_module)
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._tell(trainer)

    def _tell(self, trainer: Trainer) -> None:
        if not self._has_lines or not trainer.is_global_zero:
            return
        self._told = trainer.global_step
        total = trainer.estimated_stepping_batches
        of = f"/{total:.0f}" if total != math.inf else ""
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in trainer.progress_bar_metrics.items())
        seconds = time.monotonic() - self._begun
        print(f"step {self._told}{of}  {metrics}  {seconds // 60:.0f}:{seconds % 60:02.0f}", flush=True)
