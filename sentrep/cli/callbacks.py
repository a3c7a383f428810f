"""Callbacks of the command line: save the resolved configuration, write predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback
from torch import Tensor

from sentrep.cli.writers import NpyWriter
from sentrep.errors import InputError


class SaveConfig(SaveConfigCallback):
    """Writes the resolved configuration of a training run to ``<log_dir>/config.yaml``; it runs again as it is.

    A folder that already holds one keeps it: the new file is called ``config-v1.yaml``, as ModelCheckpoint does it.
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write when training starts; scoring a checkpoint leaves no configuration behind."""
        folder = trainer.log_dir  # asked for on every process: it broadcasts
        if stage != "fit" or self.already_saved or not trainer.is_global_zero:
            return
        target = Path(folder or trainer.default_root_dir) / self.config_filename
        target.parent.mkdir(parents=True, exist_ok=True)
        version = 0
        while target.exists():
            version += 1
            target = target.with_name(f"config-v{version}.yaml")
        self.parser.save(self.config, target, skip_unset=False, multifile=False)
        self.already_saved = True


class SavePredictions(Callback):
    """Writes the embeddings of ``sentrep predict``, batch by batch, to ``<log_dir>/predictions.npy`` (N, D) float32."""

    path: Path | None = None
    _writer: NpyWriter | None = None

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the file.

        Raises:
            InputError: on more than one process, whose rows would be interleaved.
        """
        if trainer.world_size > 1:
            raise InputError("predict writes one file from one process; add --trainer.devices 1")
        self.path = Path(trainer.log_dir or trainer.default_root_dir) / "predictions.npy"
        self._writer = NpyWriter(self.path)

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Append one batch of embeddings."""
        assert self._writer is not None
        self._writer.write(list(batch), outputs.float().cpu().numpy())

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put the file in its place."""
        assert self._writer is not None
        self._writer.close()
        print(f"{self._writer.rows} embeddings: {self.path}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave no half-written file."""
        if self._writer is not None:
            self._writer.discard()
