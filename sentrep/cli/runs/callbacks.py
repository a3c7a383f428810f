"""Callbacks of the command line: save the resolved configuration, write predictions."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback
from torch import Tensor

from sentrep.cli.runs.changes import RECORD, run_settings
from sentrep.data.stored_embeddings import write_header
from sentrep.errors import InputError
from sentrep.io.files import atomic_write, write_text
from sentrep.io.paths import writing
from sentrep.io.text import printable


class SaveConfig(SaveConfigCallback):
    """Writes the resolved configuration of a training run to ``<log_dir>/config.yaml``; it runs again as it is.

    A folder that already holds one keeps it: the new file is called ``config-v1.yaml``, as ModelCheckpoint does it.
    """

    _folder: str | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write when training starts, and hand over for the loggers; scoring leaves no configuration behind."""
        self._folder = folder = trainer.log_dir  # asked for on every process: it broadcasts
        if stage != "fit" or self.already_saved:
            return
        text = self.parser.dump(self.config, skip_unset=False, skip_validation=True)  # it was parsed
        pl_module.settings = yaml.safe_load(text)
        self.already_saved = True
        if not trainer.is_global_zero:
            return
        target = Path(folder or trainer.default_root_dir) / self.config_filename
        version = 0
        while target.exists():
            version += 1
            target = target.with_name(f"config-v{version}.yaml")
        with writing(target):
            write_text(target, text)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put the settings into the checkpoint, for the comparison at a resume."""
        module: Any = pl_module
        checkpoint[RECORD] = run_settings(module.settings, trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Say in which folder the traceback belongs (`sentrep.cli.errors.keep_traceback`)."""
        if self._folder is not None and Path(self._folder).is_dir():
            vars(exception)["run_folder"] = self._folder


class SavePredictions(Callback):
    """Writes the embeddings of ``sentrep predict``, batch by batch, to ``<log_dir>/predictions.npy`` (N, D) float32."""

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the file.

        Raises:
            InputError: on more than one process, whose rows would be interleaved, or where it cannot be written.
        """
        if trainer.world_size > 1:
            raise InputError("predict writes one file from one process; add --trainer.devices 1")
        self._path = Path(trainer.log_dir or trainer.default_root_dir) / "predictions.npy"
        self._unfinished = ExitStack()
        with writing(self._path):
            self._file = self._unfinished.enter_context(atomic_write(self._path))
        self._rows = 0

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Tensor, batch: Any, *_: Any, **__: Any
    ) -> None:
        """Append one batch of embeddings."""
        self._last = outputs.float().cpu().numpy()
        with writing(self._path):
            if not self._rows:
                write_header(self._file, 0, self._last)
            self._file.write(self._last.tobytes())
        self._rows += len(self._last)

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put the file in its place, where it replaces an older one."""
        with writing(self._path):
            self._file.seek(0)
            write_header(self._file, self._rows, self._last)
            self._unfinished.close()
        print(f"{self._rows} embeddings: {printable(str(self._path))}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave no half-written file."""
        with suppress(OSError, AttributeError):  # the unwritten rest finds no room either; or nothing began
            self._unfinished.__exit__(type(exception), exception, None)
