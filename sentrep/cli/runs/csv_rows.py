"""The rows that a run has written by Lightning's CSVLogger before it resumes."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter


def keep_rows(trainer: Trainer, step: int) -> None:
    """Write the rows of the steps before the checkpoint again, because CSVLogger removes the file when it opens it.

    Args:
        trainer: that is about to resume.
        step: optimiser steps in the checkpoint; the resumed run logs later ones again.
    """
    for logger in trainer.loggers if trainer.is_global_zero else ():
        if not isinstance(logger, CSVLogger):
            continue
        file = Path(logger.log_dir, ExperimentWriter.NAME_METRICS_FILE)
        if file.is_file():
            with file.open(newline="") as lines:
                rows = [row for row in csv.DictReader(lines) if int(row["step"]) < step]
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Experiment logs directory .* exists and is not empty")
                logger.experiment.metrics = rows
            logger.save()
