"""The progress bar of a run on a GPU."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar

LOSS = "train/loss"
"""The name by which `SentRepModule` logs the loss."""


class LossBar(TQDMProgressBar):
    """Lightning's bar with the training loss, for which the GPU is waited for at each picture alone.

    Args:
        refresh_rate: steps between two pictures.
    """

    def __init__(self, refresh_rate: int = 20) -> None:
        super().__init__(refresh_rate)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        """What stands beside the bar."""
        shown: dict[str, Any] = super().get_metrics(trainer, pl_module)
        loss = trainer.callback_metrics.get(LOSS)
        return shown if loss is None else {LOSS: loss.item(), **shown}
