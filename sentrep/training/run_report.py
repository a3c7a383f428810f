"""The callback that records a run's metrics, exports the chosen model, draws the curves and prints the report."""

from __future__ import annotations

import json
import math
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from torch import Tensor

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.before_after import before_and_after, print_run, print_test
from sentrep.evaluation.history import METRICS, MetricHistory, is_log_step, write_metrics
from sentrep.evaluation.plots.curves import plot_training_curves
from sentrep.evaluation.run_scores import RECORD, write_scores
from sentrep.evaluation.selection import FILE, Selection
from sentrep.evaluation.untouched import scores_before
from sentrep.io.paths import MODEL
from sentrep.training.loss_bar import LOSS
from sentrep.training.model_card import add_training
from sentrep.types import TextBatch

_WITHOUT_END = 1000
"""Steps from one line to the next in a run without validations whose length is unknown."""


class RunReport(Callback):
    """Reports a run of `SentRepModule` on the data of a `SentRepDataModule`.

    Before training it scores the encoder on the development sets. If the run replaces the pooling,
    prompt or modules of a start model, it also scores the start model with its folder's settings. During
    training it records every logged metric. The record is part of the checkpoint, so a resumed run reports the whole.

    Its files are beside the logs. At every validation and at the end it writes the metrics (``metrics.csv``, unless a
    `CSVLogger` does), and prints a line where no progress bar moves; a run without validations does so ten times. After
    training it writes the encoder of the chosen checkpoint (``model/``), the reason of the choice and whether labels
    were used (``selection.json``), and the training curves (``curves.png``). It prints the scores before and after
    training and, after a test, the scores of the test sets. After a test of the chosen checkpoint it writes the cosines
    of the test pairs for `sentrep compare` (``scores.parquet``).

    The chosen checkpoint is the best of the run's `ModelCheckpoint` (the last one if it monitors nothing).
    """

    def __init__(self) -> None:
        self._history = MetricHistory()
        self._replaced: str | None = None
        self._last_step = self._told = 0
        self._began = 0.0
        self._file: Path | None = None

    @property
    def history(self) -> pd.DataFrame:
        """A row for each optimiser step, a column for each metric; scores at step 0 are from before the training."""
        return self._history.frame

    # collecting

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Find the place of the metrics, also for a resumed run with nothing left to train."""
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        writes = stage == "fit" and trainer.is_global_zero and not trainer.fast_dev_run  # type: ignore[attr-defined]
        has_one = any(isinstance(logger, CSVLogger) for logger in trainer.loggers)
        self._file = folder / METRICS if writes and not has_one else None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count the trained parameters, and score the encoder; a resumed run has the scores in its checkpoint."""
        sizes = {parameter: parameter.numel() for parameter in pl_module.parameters()}
        trained = sum(size for parameter, size in sizes.items() if parameter.requires_grad)
        rank_zero_info(f"{trained:,} of {sum(sizes.values()):,} parameters are trained")
        if trainer.ckpt_path is not None or trainer.global_step > 0:
            return
        self._history, self._replaced = MetricHistory(), None
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        # On one process alone, which no other waits for before the first gradient: nothing in here may communicate.
        if trainer.is_global_zero:
            encoder: Any = pl_module.encoder
            scores, self._replaced = scores_before(encoder, _data(trainer))
            self._history.add(0, {name: torch.tensor(score) for name, score in scores.items()})

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note the step at which a resumed run begins, and the time."""
        self._last_step = self._told = trainer.global_step
        self._began = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TextBatch, batch_idx: int
    ) -> None:
        """Keep the metrics of a log step as tensors."""
        if is_log_step(trainer, after=self._last_step):
            self._last_step = trainer.global_step
            values = trainer.callback_metrics.items()
            metrics = {k: v for k, v in values if k not in ("step", "epoch") and not k.startswith("val/")}
            self._history.add(trainer.global_step, metrics)
        if not sum(trainer.num_val_batches) and trainer.global_step - self._told >= _steps_to_a_line(trainer):
            self._told = trainer.global_step
            self._tell(trainer)
            self._write_metrics()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the scores of a validation."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._tell(trainer)
            self._history.add(trainer.global_step, _metrics(trainer, "val/"))
            self._write_metrics()

    def _tell(self, trainer: Trainer) -> None:
        """Print a line where no bar moves."""
        if trainer.progress_bar_callback is None and trainer.is_global_zero:
            of = "" if math.isinf(total := trainer.estimated_stepping_batches) else f"/{total:.0f}"
            losses = {name: value for name, value in trainer.callback_metrics.items() if name == LOSS}
            values = {**losses, **trainer.progress_bar_metrics}
            metrics = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
            seconds = time.monotonic() - self._began
            print(f"step {trainer.global_step}{of}  {metrics}  {seconds // 60:.0f}:{seconds % 60:02.0f}", flush=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Write the metrics so far."""
        self._write_metrics()

    def _write_metrics(self) -> None:
        if self._file is not None and not (history := self.history).empty:
            write_metrics(self._file, history)

    def state_dict(self) -> dict[str, Any]:
        """The history so far, in plain types."""
        return {"history": self._history.state_dict(), "replaced": self._replaced}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the history of a checkpoint."""
        self._history.load_state_dict(state_dict["history"])
        self._replaced = state_dict.get("replaced")

    # reporting

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the model folder and the curves, print the report."""
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        encoder: Any = pl_module.encoder
        if trainer.is_global_zero:
            self._report(trainer, encoder, folder)

    def _report(self, trainer: Trainer, encoder: SentenceEncoder, folder: Path) -> None:
        self._write_metrics()
        sets = _sets(trainer, "val")
        chosen = Selection.of(trainer, sets)
        monitored = self.history.get(chosen.monitor, pd.Series(dtype=float)).drop(0, errors="ignore").dropna()
        chosen = replace(chosen, is_tie=len(monitored) > 1 and monitored.nunique() == 1)
        for stopper in trainer.early_stopping_callbacks:
            if stopper.stopping_reason_message is not None:
                reason = stopper.stopping_reason_message.removesuffix(" Signaling Trainer to stop.")
                rank_zero_info(f"stopped early after step {trainer.global_step}: {reason}")
        if chosen.checkpoint is not None:
            modules = list(deepcopy(encoder.sentence_modules))  # the user's own classes are not built from a file
            encoder = SentenceEncoder.from_pretrained(chosen.checkpoint, modules=modules)
        encoder.save_pretrained(folder / MODEL)
        steps = f"{chosen.step} of {trainer.global_step}"
        scores = before_and_after(self.history, sets, chosen.step)
        card = folder / MODEL / "README.md"
        add_training(card, trainer.lightning_module, _data(trainer), steps, scores, chosen.reason())
        chosen.write(folder)
        places = {"checkpoint": chosen.checkpoint, "model": folder / MODEL}
        history = self.history
        if not history.empty:
            places["curves"] = folder / "curves.png"
            plot_training_curves(history, folder / "curves.png", best_step=chosen.step, monitor=chosen.monitor)
        print_run(history, sets, chosen, self._replaced, places)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print a line per test set, the mean, and where the loggers have written."""
        folder = trainer.log_dir  # asked for on every process: it broadcasts
        scores = {name.removeprefix("test/"): float(value) for name, value in _metrics(trainer, "test/").items()}
        sets = [pairs for pairs in _sets(trainer, "test") if pairs.name in scores]
        if not sets or not trainer.is_global_zero:
            return
        print_test(sets, scores, folder if trainer.loggers else None)
        run = _tested_run(trainer, folder)
        if run is not None:
            write_scores(run, sets, pl_module.test_cosines)  # type: ignore[arg-type]


def _tested_run(trainer: Trainer, folder: str | None) -> Path | None:
    """Return the folder of the run whose chosen checkpoint, or whose untrained model, was tested; None for another."""
    if trainer.ckpt_path is None:
        return Path(folder) if trainer.loggers and folder else None
    checkpoint = Path(trainer.ckpt_path)
    run = checkpoint.parent.parent
    if not (run / RECORD).exists() or not (run / FILE).exists():
        return None
    chosen = json.loads((run / FILE).read_text(encoding="utf-8"))["checkpoint"]
    return run if chosen and Path(chosen).name == checkpoint.name else None  # the folder may have been moved


def _data(trainer: Trainer) -> Any:
    return getattr(trainer, "datamodule", None)


def _sets(trainer: Trainer, stage: str) -> list[ScoredPairs]:
    return getattr(_data(trainer), f"{stage}_sets", [])


def _steps_to_a_line(trainer: Trainer) -> float:
    """Steps from one line to the next in a run without validations."""
    total = trainer.estimated_stepping_batches
    return _WITHOUT_END if math.isinf(total) else total / 10


def _metrics(trainer: Trainer, prefix: str) -> dict[str, Tensor]:
    return {name: value for name, value in trainer.callback_metrics.items() if name.startswith(prefix)}
