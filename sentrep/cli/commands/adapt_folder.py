"""The folder of ``sentrep adapt``: its settings, its intermediate files, and its training run."""

from __future__ import annotations

import io
import json
import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console

from sentrep.adaptation.preparation import CHOOSE, PAIRS, SENTENCES
from sentrep.cli.config.configuration import Tree, merge
from sentrep.cli.errors import UsageError
from sentrep.cli.fit import fit
from sentrep.cli.runs.logs import say
from sentrep.cli.runs.precision import cpu_has_bf16
from sentrep.cli.runs.run_folders import LOCK
from sentrep.data.text.documents import Document
from sentrep.data.text.fingerprints import hash_of
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.trained import Trained
from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.runs import version_of
from sentrep.evaluation.selection import selected_step
from sentrep.evaluation.training_report import MODEL
from sentrep.io.checkpoint_file import read_checkpoint
from sentrep.io.files import hold, remove_leftovers, write_text
from sentrep.io.paths import expanded
from sentrep.reports.bars import progress_bar

_NOTE, _RECIPE = "settings.json", "recipe.yaml"
"""The settings of an adaptation, and the configuration of its training."""
_VALIDATIONS = 5
"""Validations of a training that takes all its minutes."""
_LEAST_MINUTES = 3.0
"""Between two validations, each of which takes up to a minute on two CPU cores. The end is always validated."""


class AdaptationFolder:
    """Intermediate files, times of the phases, and the training run, which resumes after an interruption.

    Args:
        folder: of everything.
        minutes: of training.
        seed: of the training.
    """

    def __init__(self, folder: Path, minutes: float, seed: int) -> None:
        self.folder, self.files = folder, folder / "work"
        self.minutes, self.seed = minutes, seed
        self.seconds: dict[str, float] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the folder, and lock it against other processes.

        Raises:
            BusyError: another process is at work on it.
            UsageError: the folder contains files that are not of an adaptation.
        """
        others = [path.name for path in (*self.folder.glob("[!.]*"), *self.files.glob("[!.]*")) if path != self.files]
        if others and not (self.files / _NOTE).exists():
            raise UsageError(
                f"adapt: {self.folder} holds {min(others)}, which is not of an adaptation; choose a new or empty "
                "folder by --output"
            )
        self.files.mkdir(parents=True, exist_ok=True)
        with hold(self.folder / LOCK, f"the adaptation in {self.folder}"):
            remove_leftovers(self.folder)
            yield

    def claim(self, documents: Sequence[Document], **settings: Any) -> None:
        """Write the settings; refuse a folder with other settings.

        Raises:
            UsageError: the folder holds another adaptation.
        """
        texts = hash_of([(document.title, document.sentences) for document in documents])
        asked = json.dumps({"text": texts, "seed": self.seed, **settings}, sort_keys=True)
        note = self.files / _NOTE
        if note.exists() and note.read_text(encoding="utf-8", errors="replace") != asked:
            raise UsageError(f"adapt: {self.folder} holds an adaptation with other settings; choose another --output")
        write_text(note, asked)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Measure the time of a part."""
        began = time.monotonic()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - began

    @property
    def trained(self) -> Path | None:
        """The finished run, or None."""
        runs = [path for path in self.files.glob("run/version_*") if selected_step(path) is not None]
        return max(runs, key=version_of, default=None)

    def fit(self, recipe: Tree, start: SentenceEncoder, backbone: str) -> int:
        """Train, or resume the training; returns the exit status."""
        if self.trained is not None:
            say("it is trained already")
            return 0
        tree = merge(recipe, self._overlay(recipe, start, backbone))
        write_text(self.files / _RECIPE, json.dumps(tree, indent=1))  # JSON is YAML
        words = ["-c", str(self.files / _RECIPE)]
        words += ["--ckpt_path", "last"] if any(self.files.glob("run/version_*/checkpoints/*.ckpt")) else []
        say(f"training for at most {self.minutes:g} minutes")
        logging.disable(logging.WARNING)  # messages of a separate run, and advice on its configuration
        try:
            with self.timed("training"), redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return fit(words)
        finally:
            logging.disable(logging.NOTSET)

    def end(self, start: SentenceEncoder) -> SentenceEncoder:
        """The trained model, with the prompts, which a configuration cannot hold, and the facts of its model card."""
        assert self.trained is not None
        end = SentenceEncoder.from_pretrained(self.trained / MODEL).to(start.device)
        end.prompts, end.default_prompt_name = dict(start.prompts), start.default_prompt_name
        last = max(self.trained.glob("checkpoints/*.ckpt"), key=lambda path: path.name == "last.ckpt")
        end.trained = Trained.of(read_checkpoint(last))
        return end

    def _overlay(self, tree: Tree, start: SentenceEncoder, backbone: str) -> Tree:
        """Settings that override the recipe: pooling and prompt of the model, the files, the time."""
        encoder: Tree = {"backbone": backbone, "pooling": start.pooling, "max_seq_length": start.max_seq_length}
        if start.prompt is not None:
            encoder["prompt"] = {"template": start.prompt, "subtract": start.subtract_template}
        if not is_checkpoint(backbone):  # which contains its own
            encoder["modules"] = start.settings.modules
        terms = tree.get("model", {}).get("objectives", {})
        teachers = {
            name: {"init_args": {"model": backbone}}
            for name, term in terms.items()
            if isinstance(term, dict) and str(term.get("class_path")).rpartition(".")[2] == "Distillation"
        }
        model = {"encoder": encoder, "objectives": teachers}
        several = len(tree.get("data", {}).get("columns") or []) > 1
        val = [str(self.files / CHOOSE)] if (self.files / CHOOSE).is_dir() else []
        own = tree.get("trainer", {})
        told = {"class_path": f"{__name__}.{Told.__name__}", "init_args": {"minutes": self.minutes}}
        logger = {"save_dir": str(self.files), "name": "run"}
        training: Tree = {
            "max_time": _seconds(self.minutes),
            "devices": own["devices"] if isinstance(own.get("devices"), list) else 1,  # a list says which one
            "callbacks": [*(own.get("callbacks") or []), told],
            "logger": {"class_path": "lightning.pytorch.loggers.TensorBoardLogger", "init_args": logger},
            "enable_progress_bar": False,
        }
        if isinstance(own.get("val_check_interval"), str):
            training["val_check_interval"] = _seconds(max(_LEAST_MINUTES, self.minutes / _VALIDATIONS))
        if own.get("precision") is None and not torch.cuda.is_available() and cpu_has_bf16():
            training["precision"] = "bf16-mixed"  # more than twice the steps in the same minutes (docs/benchmarks.md)
        data = {"train": str(self.files / (PAIRS if several else SENTENCES)), "val": val}
        return {"seed_everything": self.seed, "model": model, "data": data, "trainer": training}


class Told(Callback):
    """Shows the minutes on a bar if standard error is a terminal, and the score at each validation.

    Args:
        minutes: of the training.
    """

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        console = Console(stderr=True)
        self._bar = progress_bar(console, auto_refresh=False, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("Training, seconds", total=round(60 * minutes), note="")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock."""
        self._began = time.monotonic()
        self._bar.start()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Draw the bar."""
        self._bar.update(self._task, completed=round(time.monotonic() - self._began), refresh=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the score."""
        if not trainer.sanity_checking:
            took, score = (time.monotonic() - self._began) / 60, float(trainer.callback_metrics[f"val/{CRITERION}"])
            say(f"after {took:.1f} of {self._minutes:g} minutes the held-out questions score {score:.1f} (nDCG@10)")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remove the bar, also after an error."""
        self._bar.stop()


def is_checkpoint(backbone: str) -> bool:
    """Whether a backbone is one file, which contains its modules."""
    return expanded(backbone).is_file()


def _seconds(minutes: float) -> dict[str, int]:
    """A time for Lightning."""
    return {"seconds": max(1, round(60 * minutes))}
