"""What a run has achieved, said at its end: before and after, where things are, and the picture."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch import Tensor

from sentrep.data.sets.held_out import HeldOut
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.history import METRICS, MINUTES, Course, MetricHistory, is_log_step, write_metrics
from sentrep.evaluation.label_free import CRITERIA, label_free_criteria
from sentrep.evaluation.plots.curves import plot_training_curves
from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.report import with_means
from sentrep.evaluation.scoring import pair_metrics, proxy_scores
from sentrep.evaluation.selection import Selection
from sentrep.evaluation.sts import display_name
from sentrep.evaluation.untouched import untouched
from sentrep.reports.frames import as_frame
from sentrep.reports.report import Report
from sentrep.reports.text import printable
from sentrep.types import TextBatch

MODEL = "model"
"""Name of the chosen encoder's folder in the folder of the run."""
UNTOUCHED = "untouched/"
"""Begins the names of scores of the start model as its folder pools it, where the run does not."""
WRITING_SHARE = 0.01
"""Share of the time in which the course may be written at log steps; it is written whole."""
_SATURATES = "val/retrieval@1"
_TOY = "toy-"
_GEOMETRY = ("alignment", "uniformity")
_FINE = (*_GEOMETRY, "alignment+uniformity")
"""Last parts of the names of scores of the order of 1, printed with more digits than percentages."""
_TOY_NOTE = "This is a toy: its scores show that training works here, and mean nothing outside of it."


class TrainingReport(Callback):
    """Reports a run of `SentRepModule` on the data of a `SentRepDataModule`.

    Before training it scores the encoder on the development sets and the held-out sentences; where the run replaces the
    pooling, prompt or modules of a start model, that one on the sets as well, as its folder has it. During training it
    keeps the course of every logged metric; the course is part of the checkpoint, so a resumed run reports the whole.

    What it writes lies beside the logs. At every validation, and at the log steps between while that takes no more than
    a hundredth of the time: the course (``metrics.csv``, unless a `CSVLogger` writes one). After training: the encoder
    of the chosen checkpoint (``model/``), why it was chosen and whether labels were used for that
    (``selection.json``), and the training curves (``curves.png``). It prints the scores before and after and, after a
    test, those of the test sets.

    The chosen checkpoint is the best one of the run's `ModelCheckpoint` (the last one where it monitors nothing).
    """

    def __init__(self) -> None:
        self._history = MetricHistory()
        self._replaced: str | None = None
        self._last_step = 0
        self._began = 0.0
        self._file: Path | None = None
        self._next_write = 0.0

    @property
    def history(self) -> dict[str, Course]:
        """By metric, its (optimiser step, value); development scores at step 0 are from before the training."""
        return self._history.courses

    # collecting

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Find the place of the metrics, for a resumed run with nothing left to train as well."""
        folder = Path(trainer.log_dir or trainer.default_root_dir)  # asked for on every process: it broadcasts
        writes = stage == "fit" and trainer.is_global_zero and not trainer.fast_dev_run  # type: ignore[attr-defined]
        has_one = any(isinstance(logger, CSVLogger) for logger in trainer.loggers)
        self._file = folder / METRICS if writes and not has_one else None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Score the encoder before it is trained; not on a resume, which has these scores in its checkpoint."""
        if trainer.ckpt_path is not None or trainer.global_step > 0:
            return
        self._history, self._replaced = MetricHistory(), None
        if trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        encoder: Any = pl_module.encoder
        # On one process alone, which no other waits for before the first gradient: nothing in here may communicate.
        if trainer.is_global_zero:
            sets = _sets(trainer, "val")
            scores = _scores_before(encoder, sets, _held_out(trainer), "the encoder before training")
            if sets and (start := untouched(encoder)) is not None:
                found, self._replaced = _scores_before(start[0], sets, None, "the untouched model"), start[1]
                scores |= {name.replace("val/", UNTOUCHED, 1): score for name, score in found.items()}
            if (tasks := _tasks(trainer)) is not None:
                scores |= {f"val/{name}": value for name, value in proxy_scores(encoder, tasks).items()}
            self._history.add(0, {name: torch.tensor(score) for name, score in scores.items()})
            if scores.get(_SATURATES, 0) >= 100 and getattr(trainer.checkpoint_callback, "monitor", "") == _SATURATES:
                rank_zero_warn(
                    f"{_SATURATES} is 100 before training: it has nothing to choose a checkpoint by. Give labelled "
                    "pairs of your own (data.val), or keep the last step and know it (--checkpoint.monitor null)"
                )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note where a resumed run begins."""
        self._last_step = trainer.global_step
        self._began = time.monotonic() - 60 * self.history.get(MINUTES, [(0, 0.0)])[-1][1]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TextBatch, batch_idx: int
    ) -> None:
        """Keep the metrics of a log step: as tensors, but for the process that writes them down, as a logger does."""
        if is_log_step(trainer, after=self._last_step):
            self._last_step = trainer.global_step
            metrics = {k: v for k, v in trainer.callback_metrics.items() if not k.startswith("val/")}
            self._history.add(trainer.global_step, metrics)
            if time.monotonic() >= self._next_write:
                with suppress(InputError):  # a full disk ends no training here: the end of the run says it
                    self._write_metrics()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the scores of a validation."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            minutes = torch.tensor((time.monotonic() - self._began) / 60)
            self._history.add(trainer.global_step, {**_metrics(trainer, "val/"), MINUTES: minutes})
            self._write_metrics()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Write down how far the run has come."""
        self._write_metrics()

    def _write_metrics(self) -> None:
        if self._file is not None and self.history:
            began = time.monotonic()
            write_metrics(self._file, self.history)
            now = time.monotonic()
            self._next_write = now + (now - began) / WRITING_SHARE

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
        if chosen.checkpoint is not None:
            modules = list(deepcopy(encoder.sentence_modules))  # the user's own classes are not built from a file
            encoder = SentenceEncoder.from_pretrained(chosen.checkpoint, modules=modules)
        encoder.save_pretrained(folder / MODEL)
        chosen.write(folder)
        places = {"checkpoint": chosen.checkpoint, "model": folder / MODEL}
        if self.history:
            places["curves"] = folder / "curves.png"
            plot_training_curves(self.history, folder / "curves.png", best_step=chosen.step, monitor=chosen.monitor)
        self._print(chosen, sets, _held_out(trainer), _tasks(trainer), places)

    def _print(
        self,
        chosen: Selection,
        sets: Sequence[ScoredPairs],
        held_out: HeldOut | None,
        tasks: ProxyTasks | None,
        places: dict[str, str | Path | None],
    ) -> None:
        written = [f"{what:<10}  {_short(place) if place else 'none was written'}" for what, place in places.items()]
        notes = [
            chosen.reason(),
            *(self._not_validated(chosen.step) if sets or held_out or tasks else []),
            *self._told_nothing(chosen.monitor),
            *self._beside_the_untouched(chosen.step),
            *_toy_notes(sets),
            *written,
        ]
        Report(self._before_and_after(sets, held_out, tasks, chosen.step), notes=notes).print()

    def _before_and_after(
        self, sets: Sequence[ScoredPairs], held_out: HeldOut | None, tasks: ProxyTasks | None, step: int
    ) -> pd.DataFrame:
        what = "pairs" if held_out is None and tasks is None else "items"
        rows = []
        for p in sets:
            rows.append((f"val/{p.name}", display_name(p.name), str(len(p)), p.protocol))
            rows += [(f"val/{p.name}/{name}", f"  {name}", "", "") for name in _GEOMETRY]
        if len(sets) > 1:
            rows.append(("val/sts", "mean", "", ""))
        if held_out is not None:
            rows += [(f"val/{name}", name, str(len(held_out)), "no labels") for name in CRITERIA]
        if tasks is not None:
            counts = {CRITERION: len(tasks), **{f"{CRITERION}/{task}": len(own) for task, own in tasks.answers.items()}}
            rows += [(f"val/{name}", name, str(count), "no labels") for name, count in counts.items()]
        table = []
        for metric, *cells in rows:
            before, after = self._before(metric), dict(self.history.get(metric, [])).get(step)
            digits = 4 if metric.rpartition("/")[2] in _FINE else 2
            change = "—" if before is None or after is None else f"{after - before:+.{digits}f}"
            table.append([*cells, _score(before, digits), _score(after, digits), change])
        columns = ["set", what, "protocol", "before", f"step {step}", "change"]
        return as_frame(table, columns=columns)

    def _before(self, metric: str) -> float | None:
        """The score of the untouched model: as its folder pools it, where the run does not."""
        courses = (self.history.get(name, []) for name in (metric.replace("val/", UNTOUCHED, 1), metric))
        return next((dict(course)[0] for course in courses if 0 in dict(course)), None)

    def _not_validated(self, step: int) -> list[str]:
        """Why the step has no scores."""
        steps = [validated for validated, _ in self.history.get(MINUTES, [])]
        if step in steps:
            return []
        why = (
            f"the last validation was at step {steps[-1]}"
            if steps
            else "the training ended before its first validation"
        )
        return [f"Step {step} has no scores: {why}; set trainer.val_check_interval to fewer batches."]

    def _told_nothing(self, monitor: str | None) -> list[str]:
        """Whether the metric that chose was the same at every validation."""
        values = {value for step, value in self.history.get(monitor or "", []) if step > 0}
        if len(values) != 1 or len(self.history[str(monitor)]) < 3:
            return []
        return [
            f"{monitor} was {values.pop():.2f} at every validation: it cannot tell these checkpoints apart, so the "
            "last was taken; do not read its value as quality."
        ]

    def _beside_the_untouched(self, step: int) -> list[str]:
        """What was replaced of the start model, and whether the result is worse than it."""
        course, before = dict(self.history.get("val/sts", [])), self._before("val/sts")
        if before is None or step not in course:
            return []
        lines = []
        if self._replaced is not None:
            lines.append(
                f"Before is the untouched model, as its folder says. This run replaced {self._replaced}, and so began "
                f"at {course[0]:.2f}."
            )
        if course[step] < before:
            lines.append(
                f"BELOW THE UNTOUCHED MODEL: {course[step]:.2f} where it has {before:.2f}. For these sets it is the "
                "better one, as it was."
            )
        return lines

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print a line per test set, the mean, and where the loggers have written."""
        folder = trainer.log_dir  # asked for on every process: it broadcasts
        scores = {name.removeprefix("test/"): float(value) for name, value in _metrics(trainer, "test/").items()}
        sets = [pairs for pairs in _sets(trainer, "test") if pairs.name in scores]
        if not sets or not trainer.is_global_zero:
            return
        rows = [[display_name(one.name), str(len(one)), one.protocol, _score(scores[one.name])] for one in sets]
        table = as_frame(rows, columns=["set", "pairs", "protocol", "Spearman"])
        log = [f"log         {folder}"] if trainer.loggers and folder is not None else []
        Report(*with_means(table, {one.name: scores[one.name] for one in sets}), [*_toy_notes(sets), *log]).print()


def _scores_before(
    encoder: SentenceEncoder, sets: Sequence[ScoredPairs], held_out: HeldOut | None, what: str
) -> dict[str, float]:
    scores: dict[str, float] = {}
    if sets:
        rank_zero_info(f"Scoring {what}: {printable(_names(sets))}")
        metrics = {name: metric for pairs in sets for name, metric in pair_metrics(encoder, pairs).items()}
        scores = {f"val/{name}": float(metric.compute()) for name, metric in metrics.items()}
        scores["val/sts"] = sum(scores[f"val/{pairs.name}"] for pairs in sets) / len(sets)
    if held_out is not None:
        scores |= {f"val/{name}": value for name, value in label_free_criteria(encoder, held_out.ids).items()}
    return scores


def _held_out(trainer: Trainer) -> HeldOut | None:
    return getattr(getattr(trainer, "datamodule", None), "held_out_sentences", None)


def _tasks(trainer: Trainer) -> ProxyTasks | None:
    return getattr(getattr(trainer, "datamodule", None), "proxy_tasks", None)


def _sets(trainer: Trainer, stage: str) -> list[ScoredPairs]:
    return getattr(getattr(trainer, "datamodule", None), f"{stage}_sets", [])


def _metrics(trainer: Trainer, prefix: str) -> dict[str, Tensor]:
    return {name: value for name, value in trainer.callback_metrics.items() if name.startswith(prefix)}


def _names(sets: Sequence[ScoredPairs]) -> str:
    return ", ".join(display_name(pairs.name) for pairs in sets)


def _toy_notes(sets: Sequence[ScoredPairs]) -> list[str]:
    return [_TOY_NOTE] if any(pairs.name.startswith(_TOY) for pairs in sets) else []


def _score(score: float | None, digits: int = 2) -> str:
    return "—" if score is None else f"{score:.{digits}f}"


def _short(place: str | Path) -> str:
    """Relative to the current folder for what lies below it."""
    relative = os.path.relpath(place)
    return str(place) if relative.startswith("..") else relative
