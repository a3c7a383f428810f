"""What makes a run safe: callbacks for a Trainer in Python, which `sentrep fit` uses, too."""

from __future__ import annotations

from lightning.pytorch import Callback

from sentrep.evaluation import CollapseMonitor
from sentrep.stability import NonFiniteGuard
from sentrep.training.best_checkpoint import BestCheckpoint
from sentrep.training.exact_resume import ExactResume
from sentrep.training.loss_bar import LossBar
from sentrep.training.run_report import RunReport
from sentrep.training.stop_on_signal import StopOnSignal

__all__ = ["BestCheckpoint", "ExactResume", "LossBar", "RunReport", "StopOnSignal", "default_callbacks"]


def default_callbacks() -> list[Callback]:
    """The callbacks of ``sentrep fit``, for a Trainer in Python.

    Examples:
        >>> from lightning.pytorch import Trainer
        >>> trainer = Trainer(callbacks=default_callbacks(), logger=False, accelerator="cpu")
    """
    return [BestCheckpoint(), CollapseMonitor(), NonFiniteGuard(), RunReport(), ExactResume(), StopOnSignal()]
