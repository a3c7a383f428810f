"""The folder of ``sentrep adapt``: what it was claimed for, what was made in it, and the training in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sentrep.adaptation.preparation import CHOOSE, PAIRS, SENTENCES
from sentrep.cli import trainer
from sentrep.cli.configuration import Tree, parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.logs import say
from sentrep.cli.precision import cpu_has_bf16
from sentrep.cli.run_folders import LOCK
from sentrep.data.text.documents import Document
from sentrep.data.text.fingerprints import hash_of
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.proxy import CRITERION
from sentrep.evaluation.runs import version_of
from sentrep.evaluation.selection import selected_step
from sentrep.evaluation.training_report import MODEL
from sentrep.io.files import hold, refuse_within, write_text
from sentrep.io.paths import expanded

_NOTE = "settings.json"
"""What an adaptation was claimed for."""
PATIENCE = 4
"""Validations without a better one that end the training."""
_VALIDATIONS = 5
"""Validations of a training that takes all its minutes."""
_LEAST_MINUTES = 3.0
"""Between two: one takes up to a minute on two CPU cores, while the clock runs. The end is validated in any case."""


class AdaptationFolder:
    """What was made on the way, how long it took, and the training, which goes on where it was interrupted.

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
        """Make the folder, and keep other processes from it.

        Raises:
            UsageError: it is a part of another adaptation.
            BusyError: another process is at work on it, or on a folder that it lies in.
        """
        for above in self.folder.resolve().parents:
            if (above / self.files.name / _NOTE).exists():
                raise UsageError(
                    f"adapt: {self.folder} is a part of the adaptation in {above}; choose another --output"
                )
        refuse_within(self.folder, LOCK)
        self.files.mkdir(parents=True, exist_ok=True)
        with hold(self.folder / LOCK, f"the adaptation in {self.folder}"):
            yield

    def claim(self, documents: Sequence[Document], **settings: Any) -> None:
        """Note what is asked for; refuse a folder of something else.

        Raises:
            UsageError: there is another adaptation in the folder.
        """
        texts = hash_of([(document.title, document.sentences) for document in documents])
        asked = json.dumps({"text": texts, "seed": self.seed, **settings}, sort_keys=True)
        note = self.files / _NOTE
        if note.exists() and note.read_text(encoding="utf-8", errors="replace") != asked:
            raise UsageError(f"adapt: {self.folder} holds an adaptation with other settings; choose another --output")
        write_text(note, asked)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Note how long a part takes."""
        began = time.monotonic()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - began

    @property
    def trained(self) -> Path | None:
        """The run that has come to its end; None where there is none."""
        runs = [path for path in self.files.glob("run/version_*") if selected_step(path) is not None]
        return max(runs, key=version_of, default=None)

    def fit(self, recipes: Sequence[str], start: SentenceEncoder, backbone: str) -> int:
        """Train, or go on with it; returns the exit status."""
        if self.trained is not None:
            say(f"{self.trained} is trained already")
            return 0
        files = [word for file in recipes for word in ("-c", file)]
        tree = parse_request(files).tree
        with self.timed("training"):
            words = [*files, "-c", json.dumps(self._overlay(tree, start, backbone)), "--ckpt_path", "last"]
            status = trainer.run("fit", words)
        if status == 0 and self.trained is None:
            raise UsageError("adapt: the recipe switches the report off, which writes the model; leave it on")
        return status

    def end(self, start: SentenceEncoder) -> SentenceEncoder:
        """The trained model; a configuration has no place for the prompts by name, which belong to the model."""
        assert self.trained is not None
        end = SentenceEncoder.from_pretrained(self.trained / MODEL).to(start.device)
        end.prompts = dict(start.prompts)
        return end

    def _overlay(self, tree: Tree, start: SentenceEncoder, backbone: str) -> Tree:
        """What is laid over the recipe: the model as it is used, the files, the time."""
        encoder: Tree = {"backbone": backbone, "pooling": start.pooling, "max_seq_length": start.max_seq_length}
        if start.prompt is not None:
            encoder["prompt"] = {"template": start.prompt, "subtract": start.subtract_template}
        if not is_checkpoint(backbone):  # which brings its own
            encoder["modules"] = start.settings.modules
        terms = tree.get("model", {}).get("objectives", {})
        teachers = {
            name: {"init_args": {"model": backbone}}
            for name, term in terms.items()
            if isinstance(term, dict) and str(term.get("class_path")).rpartition(".")[2] == "Distillation"
        }
        several = len(tree.get("data", {}).get("columns") or []) > 1
        choose = self.files / CHOOSE
        training: Tree = {"max_time": _days(60 * self.minutes), "devices": 1}
        own = tree.get("trainer", {})
        if isinstance(own.get("devices"), list):
            training["devices"] = own["devices"]  # which one
        if isinstance(own.get("val_check_interval"), str):
            training["val_check_interval"] = _days(60 * max(_LEAST_MINUTES, self.minutes / _VALIDATIONS))
        if own.get("precision") is None and not torch.cuda.is_available() and cpu_has_bf16():
            training["precision"] = "bf16-mixed"  # more than twice the steps in the same minutes (docs/benchmarks.md)
        if choose.is_dir():
            stop = {"monitor": f"val/{CRITERION}", "mode": "max", "patience": PATIENCE}
            stop["check_on_train_epoch_end"] = False  # left open, it asks for an interval in steps
            name = "lightning.pytorch.callbacks.EarlyStopping"
            training["callbacks"] = [*(own.get("callbacks") or []), {"class_path": name, "init_args": stop}]
        logger = {"save_dir": str(self.files), "name": "run"}
        training["logger"] = {"class_path": "lightning.pytorch.loggers.TensorBoardLogger", "init_args": logger}
        return {
            "seed_everything": self.seed,
            "model": {"encoder": encoder, "objectives": teachers},
            "data": {
                "train": str(self.files / (PAIRS if several else SENTENCES)),
                "val": [str(choose)] if choose.is_dir() else [],
            },
            "trainer": training,
        }


def is_checkpoint(backbone: str) -> bool:
    """Whether a backbone is one file, which brings its modules."""
    return expanded(backbone).is_file()


def _days(seconds: float) -> str:
    """As Lightning wants times: days:hours:minutes:seconds."""
    whole = max(1, round(seconds))
    return f"{whole // 86400:02d}:{whole // 3600 % 24:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
