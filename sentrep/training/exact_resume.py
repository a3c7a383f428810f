"""A resumed run is refused if it is not the checkpoint's own, and otherwise exact."""

from __future__ import annotations

import csv
import json
from enum import Enum
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.utilities.rank_zero import rank_zero_info

from sentrep.checkpoint.rebuild import recorded_arguments
from sentrep.checkpoint.resume import start_epoch_again
from sentrep.config import flat
from sentrep.data import SentRepDataModule
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.folders import small_files
from sentrep.errors import InputError
from sentrep.evaluation.history import of_total_steps
from sentrep.io.checkpoint_file import PAYLOAD_KEY

Tree = dict[str, Any]
Differences = dict[str, tuple[Any, Any]]
"""``{dotted key: (value in the checkpoint, value now)}``."""

RECORD = "sentrep_run"
"""Key of a checkpoint under which `run_settings` lie."""
_TRAINER = (
    "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "limit_train_batches", "overfit_batches",
)  # fmt: skip
_VERSIONS = {"transformers_version", "dtype"}
_VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt")
"""Files of a tokenizer without ``tokenizer.json``."""
_ORIGIN = tuple(f"model.encoder.{key}." for key in ("backbone", "tokenizer", "pretrained"))
"""The origin of an encoder, which a checkpoint replaces; the content is compared instead."""


class ExactResume(Callback):
    """Compares a run that resumes with its checkpoint, and refuses other settings.

    It compares the arguments of every plug-in and of the module, the architecture of the backbone, the tokenizer,
    the precision, and the settings of trainer and data that change a step. It does not compare evaluation sets,
    folders, workers, or how long to train, so that a finished run can be extended. The training text and the order of
    its batches are compared by the loader itself; every step is seeded by `SentRepModule`. Rows that Lightning's
    `CSVLogger` wrote before the checkpoint are kept.

    Args:
        allow_changes: list the differences and continue; where the batches differ, the epoch starts again.
    """

    def __init__(self, allow_changes: bool = False) -> None:
        self.allow_changes = allow_changes
        self._rows: list[tuple[CSVLogger, list[dict[str, Any]]]] = []

    def read_rows(self, trainer: Trainer) -> None:
        """Read what `CSVLogger` has written; `SentRepModule` calls it before the logger removes its file."""
        self._rows = []
        for logger in trainer.loggers if trainer.is_global_zero else ():
            file = Path(logger.log_dir or "", ExperimentWriter.NAME_METRICS_FILE)
            if isinstance(logger, CSVLogger) and file.is_file():
                with file.open(newline="") as lines:
                    self._rows.append((logger, [*csv.DictReader(lines)]))

    def _write_rows(self, step: int) -> None:
        """Write the rows up to the checkpoint again."""
        for logger, rows in self._rows:
            logger.experiment.metrics = [row for row in rows if int(row["step"]) <= step]
            logger.save()

    def compare(self, trainer: Trainer, module: LightningModule, checkpoint: Tree) -> None:
        """Compare a run with the content of its checkpoint; `SentRepModule` calls it before torch reads the weights.

        Raises:
            InputError: names the settings that differ, or the files of processes that resume from several.
        """
        path = str(trainer.ckpt_path)
        if (first := trainer.strategy.broadcast(path)) != path:
            raise InputError(
                f"the processes of this run resume from different checkpoints ({first}, {path}); name one file"
            )
        now = {key: value for key, value in module.hparams.items() if not key.startswith("_")}
        found = _differences(flat(now, "model"), flat(recorded_arguments(checkpoint, path), "model"))
        encoder: Any = module.encoder
        found |= _encoder_differences(encoder, checkpoint[PAYLOAD_KEY])
        mine = run_settings(trainer, module)
        saved = checkpoint.get(RECORD, mine)
        found |= {key: (saved[key], mine[key]) for key in mine if key in saved and saved[key] != mine[key]}
        self._settle(found)
        self._write_rows(checkpoint["global_step"])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say at which step a resumed run continues."""
        if trainer.ckpt_path is not None:
            rank_zero_info(f"{trainer.ckpt_path}: continues at step {trainer.global_step + 1}{of_total_steps(trainer)}")

    def _settle(self, found: Differences) -> None:
        for key, (saved, mine) in found.items():
            rank_zero_info(f"{key}: {saved!r} in the checkpoint, {mine!r} now")
        if not found:
            return
        differ = f"settings differ from the checkpoint's: {', '.join(found)}"
        if not self.allow_changes:
            raise InputError(
                f"{differ}; take its values, or add --allow-changes to use yours (in Python: "
                "ExactResume(allow_changes=True))"
            )
        rank_zero_info(f"warning: these {differ}; yours are used, but the optimizer continues with its own")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the settings into the checkpoint."""
        checkpoint[RECORD] = run_settings(trainer, pl_module)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Start the epoch again where changes are allowed and the batches differ."""
        datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]
        if not self.allow_changes or trainer.state.fn != "fit" or not isinstance(datamodule, SentRepDataModule):
            return
        order = datamodule.train_dataloader().order()
        for state in checkpoint["loops"]["fit_loop"]["state_dict"].get("combined_loader", []):
            if state["order"] != order or state["done"] % trainer.accumulate_grad_batches:
                rank_zero_info("warning: the batches differ from the checkpoint's: the epoch starts again")
                start_epoch_again(checkpoint, order)


def run_settings(trainer: Trainer, module: Any) -> Tree:
    """What changes a run besides its model, ``{dotted key: value}``."""
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    found = {"model.seed": module.seed, "trainer.precision": str(trainer.precision), "processes": trainer.world_size}
    if isinstance(data, SentRepDataModule):
        found |= {"data.batch_size": data.batch_size, "data.seed": data.seed, "data.fraction": data.fraction}
    for key in _TRAINER:
        value = getattr(trainer, key)
        found[f"trainer.{key}"] = str(value.value) if isinstance(value, Enum) else value  # a checkpoint holds no enum
    return found


def _differences(now: Tree, before: Tree) -> Differences:
    """The values that differ; the encoder's origin is left aside.

    An argument that the checkpoint does not know of its plug-in had its default's effect then.
    """
    found = {key: (before.get(key), now.get(key)) for key in [*now, *before]}
    return {
        key: values
        for key, values in found.items()
        if values[0] != values[1]
        and not f"{key}.".startswith(_ORIGIN)
        and (key in before or before.get(key.rpartition(".")[0]) is None)
    }


def _encoder_differences(encoder: SentenceEncoder, payload: Tree) -> Differences:
    """The differing settings of the built backbone, and the tokenizer's files that differ.

    The name of a folder does not show them: its files may have changed, and weights of equal shape fit.
    """
    mine, saved = small_files(encoder.model), payload["files"]
    settings, stored = json.loads(mine["config.json"]), json.loads(saved["config.json"])
    found = {
        f"model.encoder.backbone.{key}": (stored[key], settings[key])
        for key in settings.keys() & stored.keys() - _VERSIONS
        if stored[key] != settings[key]
    }
    if _words(mine) != _words(saved):
        found["model.encoder.tokenizer"] = ("the checkpoint's", "another one")
    return found


def _words(files: dict[str, str]) -> Tree:
    """The content of the tokenizer's files, without its last truncation and padding."""
    found: Tree = {name: files[name] for name in _VOCABULARIES if name in files}
    if "tokenizer.json" in files:
        content = json.loads(files["tokenizer.json"])
        found["tokenizer.json"] = {**content, "truncation": None, "padding": None}
    return found
