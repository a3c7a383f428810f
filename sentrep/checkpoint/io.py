"""Writing complete checkpoint files, or none."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO

from sentrep.io.checkpoint_file import verify
from sentrep.io.files import atomic_write
from sentrep.io.paths import writing


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint under a temporary name in its own folder, syncs it to the disk, then renames it.

    If a process dies during a save, or the disk is full, the previous file of this name does not change, and no older
    checkpoint is removed. ``sentrep fit`` uses it; in Python::

        Trainer(plugins=[AtomicCheckpointIO()], ...)

    Paths with a protocol (``s3://...``) are left to Lightning.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write one complete file or none; it is built in memory first, as in Lightning.

        Raises:
            InputError: for a disk that does not take the file.
        """
        if storage_options is not None or "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        torch.save(checkpoint, buffer := io.BytesIO())
        with writing(path), atomic_write(path) as file:
            file.write(buffer.getbuffer())

    def load_checkpoint(
        self, path: str | Path, map_location: Callable | None = lambda storage, _: storage, weights_only: Any = None
    ) -> dict[str, Any]:
        """Read a file after `verify`, without running its code unless ``weights_only=False``.

        Raises:
            InputError: for a file that is missing or damaged.
        """
        if "://" not in str(path):
            verify(path)
        return super().load_checkpoint(path, map_location, True if weights_only is None else weights_only)
