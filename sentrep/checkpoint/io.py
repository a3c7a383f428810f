"""Writing complete checkpoint files, or none."""

from __future__ import annotations

import errno
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from sentrep.io.checkpoint_file import verify
from sentrep.io.files import atomic_write

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint under a temporary name in its own folder, syncs it to the disk, then renames it.

    If a process dies during a save, the previous file of this name does not change. If the disk is full, the
    temporary file is removed, a warning names the needed and the free space, and training continues; the next save is
    tried as usual. No older checkpoint is removed until a save succeeds. ``sentrep fit`` uses it; in Python::

        Trainer(plugins=[AtomicCheckpointIO()], ...)

    Paths with a protocol (``s3://...``) are left to Lightning.

    Attributes:
        failure: the error of the last save; None if it succeeded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failure: str | None = None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write one complete file or none; it is built in memory first, as in Lightning.

        Raises:
            OSError: for anything but a full disk or an exhausted quota.
        """
        if storage_options is not None or "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        target, buffer = Path(path), io.BytesIO()
        try:
            torch.save(checkpoint, buffer)
            with atomic_write(target) as file:
                file.write(buffer.getbuffer())
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            sizes = (buffer.tell(), shutil.disk_usage(target.parent).free)
            needed, free = (f"{size / 2**20:,.1f} MiB" for size in sizes)
            self.failure = f"{target} was not written: it needs {needed} and {free} are free; make room on this disk"
            rank_zero_warn(
                f"{self.failure}. Older checkpoints are kept, training continues, and the next save is tried."
            )
        else:
            self.failure = None

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

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a file, unless the last save failed, because then the older file is still needed."""
        if self.failure is None:
            super().remove_checkpoint(path)
