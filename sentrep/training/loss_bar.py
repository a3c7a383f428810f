"""The progress bar of a run on a GPU."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar

LOSS = "train/loss"
"""The name by which `SentRepModule` logs the loss."""


class LossBar(TQDMProgressBar):
    """Lightning's bar with the training loss. It waits for the GPU only at steps that draw it.

    Args:
        refresh_rate: the bar is drawn after so many steps.
    """

    def __init__(self, refresh_rate: int = 20) -> None:
        super().__init__(refresh_rate)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        """Return the values that the bar shows."""
        shown: dict[str, Any] = super().get_metrics(trainer, pl_module)
        loss = trainer.callback_metrics.get(LOSS)
        return shown if loss is None else {LOSS: loss.item(), **shown}
