"""Callbacks of the command line: save the resolved configuration, write predictions."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback
from torch import Tensor

from sentrep.cli.changes import RECORD, run_settings
from sentrep.errors import InputError
from sentrep.io.files import atomic_write, write_text
from sentrep.io.paths import writing
from sentrep.reports.text import printable


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
        """Put into the checkpoint what a resumed run's settings are compared with."""
        module: Any = pl_module
        checkpoint[RECORD] = run_settings(module.settings, trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Say in which folder the traceback belongs (`sentrep.cli.errors.keep_traceback`)."""
        if self._folder is not None and Path(self._folder).is_dir():
            vars(exception)["run_folder"] = self._folder


class NpyWriter:
    """A NumPy array (N, D) float32 that grows on the disk row by row, and appears under its name when it is complete.

    The header, which holds N, is written at the end in the room left for it.

    Args:
        path: the final file.

    Raises:
        InputError: when it cannot be written there, from every method.
    """

    HEADER = 128
    """Bytes of the header of two dimensions, whatever N and D are."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self._width = path, 0, 0
        self._unfinished = ExitStack()
        with writing(path):
            self._file = self._unfinished.enter_context(atomic_write(path))
            self._file.seek(self.HEADER)

    def write(self, embeddings: np.ndarray) -> None:
        """Append rows (n, D)."""
        with writing(self.path):
            self._file.write(np.ascontiguousarray(embeddings, dtype="<f4").tobytes())
        self.rows, self._width = self.rows + len(embeddings), embeddings.shape[1]

    def close(self) -> None:
        """Finish the file and give it its name, replacing an older one."""
        shape = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self._width)}
        with writing(self.path):
            self._file.seek(0)
            np.lib.format.write_array_header_1_0(self._file, shape)
            self._unfinished.close()

    def discard(self) -> None:
        """Remove the unfinished file."""
        with suppress(OSError):  # what it has not written yet finds no room either
            self._unfinished.__exit__(RuntimeError, RuntimeError("discarded"), None)


class SavePredictions(Callback):
    """Writes the embeddings of ``sentrep predict``, batch by batch, to ``<log_dir>/predictions.npy`` (N, D) float32."""

    _writer: NpyWriter | None = None

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the file.

        Raises:
            InputError: on more than one process, whose rows would be interleaved.
        """
        if trainer.world_size > 1:
            raise InputError("predict writes one file from one process; add --trainer.devices 1")
        self._writer = NpyWriter(Path(trainer.log_dir or trainer.default_root_dir) / "predictions.npy")

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Tensor, batch: Any, *_: Any, **__: Any
    ) -> None:
        """Append one batch of embeddings."""
        assert self._writer is not None
        self._writer.write(outputs.float().cpu().numpy())

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put the file in its place."""
        assert self._writer is not None
        self._writer.close()
        print(f"{self._writer.rows} embeddings: {printable(str(self._writer.path))}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave no half-written file."""
        if self._writer is not None:
            self._writer.discard()
