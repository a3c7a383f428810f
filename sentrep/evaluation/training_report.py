"""What a run has achieved, said at its end: before and after, where things are, and the picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_info
from rich.console import Console
from rich.table import Table
from torch import Tensor

from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.history import Course, MetricHistory, is_log_step
from sentrep.evaluation.plots.curves import plot_training_curves
from sentrep.evaluation.report import add_mean, plain_table
from sentrep.evaluation.sts import display_name, evaluate_sts
from sentrep.types import ScoredPairs, TextBatch

_TOY = "toy-"
_TOY_NOTE = "This is a toy: its scores show that training works here, and mean nothing outside of it."


class TrainingReport(Callback):
    """Reports a run of `SentRepModule` on the data of a `SentRepDataModule`.

    Before training it scores the encoder on the development sets. During training it keeps the course of every logged
    ``train/`` and ``val/`` metric; the course is part of the checkpoint, so a resumed run reports the whole. After
    training it writes, beside the logs, the encoder of the chosen checkpoint (``model/``) and the training curves
    (``curves.png``), and prints the scores before and after. After a test it prints the scores of the test sets.

    The chosen checkpoint is the best one of the run's `ModelCheckpoint` (the last one where it monitors nothing).
    """

    def __init__(self) -> None:
        self._history = MetricHistory()
        self._last_step = 0

    @property
    def history(self) -> dict[str, Course]:
        """By metric, its (optimiser step, value); development scores at step 0 are from before the training."""
        return self._history.courses

    # collecting

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score the encoder before it is trained; not on a resume, which has these scores in its checkpoint."""
        if trainer.ckpt_path is not None or trainer.global_step > 0:
            return
        self._history = MetricHistory()
        sets = _sets(trainer, "val")
        # On one process alone, which no other waits for before the first gradient: nothing in here may communicate.
        if sets and trainer.is_global_zero and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            rank_zero_info(f"Scoring the encoder before training: {_names(sets)}")
            encoder: SentenceEncoder = pl_module.encoder  # type: ignore[assignment]
            results = evaluate_sts(encoder, sets, show_progress_bar=False)
            scores = {f"val/{result.name}": result.spearman for result in results}
            scores["val/sts"] = sum(scores.values()) / len(scores)
            self._history.add(0, {name: torch.tensor(score) for name, score in scores.items()})

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note where a resumed run stands."""
        self._last_step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TextBatch, batch_idx: int
    ) -> None:
        """Keep the metrics of a log step, as tensors: nothing waits for the device."""
        if is_log_step(trainer, after=self._last_step):
            self._last_step = trainer.global_step
            self._history.add(trainer.global_step, _metrics(trainer, "train/"))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the development scores."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            self._history.add(trainer.global_step, _metrics(trainer, "val/"))

    def state_dict(self) -> dict[str, Any]:
        """The history so far, in plain types."""
        return {"history": self._history.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the history of a checkpoint."""
        self._history.load_state_dict(state_dict["history"])

    # reporting

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the model folder and the curves, print the report."""
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        if not trainer.is_global_zero or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        chosen = _chosen(trainer)
        encoder = pl_module.encoder if chosen.path is None else SentenceEncoder.from_pretrained(chosen.path)
        assert isinstance(encoder, SentenceEncoder)
        encoder.save_pretrained(folder / "model")
        places = {"checkpoint": chosen.path, "model": folder / "model"}
        if self.history:
            places["curves"] = folder / "curves.png"
            plot_training_curves(self.history, folder / "curves.png", best_step=chosen.step)
        self._print(chosen, _sets(trainer, "val"), places)

    def _print(self, chosen: _Chosen, sets: Sequence[ScoredPairs], places: dict[str, str | Path | None]) -> None:
        console = Console()
        if sets:
            console.print(self._before_and_after(sets, chosen.step))
        # lines with a path are left to the terminal to break, so that a path can be copied whole
        console.print(chosen.reason(sets), soft_wrap=True, highlight=False)
        if _is_toy(sets):
            console.print(_TOY_NOTE, soft_wrap=True, highlight=False)
        for what, place in places.items():
            console.print(f"{what:<10}  {_short(place) if place else 'none was written'}", soft_wrap=True)

    def _before_and_after(self, sets: Sequence[ScoredPairs], step: int) -> Table:
        table = plain_table("set", "pairs", "protocol", "before", f"step {step}", "change")
        rows = [(f"val/{p.name}", display_name(p.name), str(len(p)), p.protocol) for p in sets]
        if len(sets) > 1:
            rows.append(("val/sts", "mean", "", ""))
        for metric, *cells in rows:
            course = dict(self.history.get(metric, []))
            before, after = course.get(0), course.get(step)
            change = "—" if before is None or after is None else f"{after - before:+.2f}"
            table.add_row(*cells, _score(before), _score(after), change)
        return table

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print a line per test set, and the mean."""
        scores = {name.removeprefix("test/"): float(value) for name, value in _metrics(trainer, "test/").items()}
        sets = [pairs for pairs in _sets(trainer, "test") if pairs.name in scores]
        if not sets or not trainer.is_global_zero:
            return
        table = plain_table("set", "pairs", "protocol", "Spearman")
        for pairs in sets:
            table.add_row(display_name(pairs.name), str(len(pairs)), pairs.protocol, _score(scores[pairs.name]))
        add_mean(table, {pairs.name: scores[pairs.name] for pairs in sets})
        console = Console()
        console.print(table)
        if _is_toy(sets):
            console.print(_TOY_NOTE, soft_wrap=True)


@dataclass(frozen=True)
class _Chosen:
    """The checkpoint that a run leaves behind."""

    path: str | None
    step: int
    monitor: str | None

    def reason(self, sets: Sequence[ScoredPairs]) -> str:
        """Why this one, and whether labels had a part in it."""
        if self.monitor is None:
            return f"The last step, {self.step}, was kept; no labels were used to choose it."
        used = [pairs for pairs in sets if self.monitor in ("val/sts", f"val/{pairs.name}")]
        labels = f"the gold scores of {_names(used)} were used for this choice" if used else "no labels were used"
        return f"Step {self.step} was chosen by its {self.monitor}; {labels}, and none for training."


def _chosen(trainer: Trainer) -> _Chosen:
    saver = trainer.checkpoint_callback
    path = (saver.best_model_path or saver.last_model_path) if isinstance(saver, ModelCheckpoint) else ""
    if not path or not Path(path).is_file():
        return _Chosen(None, trainer.global_step, None)
    assert isinstance(saver, ModelCheckpoint)
    # mapped, not read: only the number is wanted
    step = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"]
    return _Chosen(path, step, saver.monitor if saver.best_model_path else None)


def _sets(trainer: Trainer, stage: str) -> list[ScoredPairs]:
    return getattr(getattr(trainer, "datamodule", None), f"{stage}_sets", [])


def _metrics(trainer: Trainer, prefix: str) -> dict[str, Tensor]:
    return {name: value for name, value in trainer.callback_metrics.items() if name.startswith(prefix)}


def _names(sets: Sequence[ScoredPairs]) -> str:
    return ", ".join(display_name(pairs.name) for pairs in sets)


def _is_toy(sets: Sequence[ScoredPairs]) -> bool:
    return any(pairs.name.startswith(_TOY) for pairs in sets)


def _score(score: float | None) -> str:
    return "—" if score is None else f"{score:.2f}"


def _short(place: str | Path) -> str:
    """Relative to the current folder for what lies below it."""
    relative = os.path.relpath(place)
    return str(place) if relative.startswith("..") else relative
