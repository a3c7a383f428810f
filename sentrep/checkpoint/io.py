"""Writing checkpoint files: whole or not at all, and nothing that could not be read again."""

from __future__ import annotations

import errno
import io
import shutil
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from sentrep.errors import InputError
from sentrep.io.checkpoint_file import digest, verify
from sentrep.io.files import atomic_write, link

_READABLE = (torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None))
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint under a temporary name in its own folder, syncs it to the disk, then renames it.

    A process that dies while it saves leaves the previous file of this name as it was. Where the disk is full, the
    temporary file is removed, a warning says how much space is needed and free, and training goes on; the next save is
    tried as usual. Until one succeeds no older checkpoint is removed. ``sentrep fit`` uses it; in Python::

        Trainer(plugins=[AtomicCheckpointIO()], ...)

    Paths with a protocol (``s3://...``) are left to Lightning.

    Args:
        links: where the same content is saved again under another name, give the file a second name (a hard link)
            instead of writing it twice.

    Attributes:
        failure: why the last save failed; None where it succeeded.
    """

    def __init__(self, links: bool = False) -> None:
        super().__init__()
        self.links = links
        self.failure: str | None = None
        self._written: tuple[Path, str] | None = None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write one file, whole or not at all.

        Raises:
            InputError: for a content that could not be read again; nothing is written.
            OSError: for anything but a full disk or an exhausted quota.
        """
        check_readable(checkpoint, f"{path} was not written")
        if storage_options is not None or "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        target, content = Path(path), digest(checkpoint) if self.links else ""
        before, self._written = self._written, None
        sink = _Sink()
        try:
            if not (before and before[1] == content and content and link(before[0], target)):
                with atomic_write(target) as sink.file:
                    torch.save(checkpoint, sink)  # type: ignore[arg-type]
                    if sink.error is not None:
                        raise sink.error
            self._written = (target, content)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            needed, free = (f"{size / 2**20:,.1f} MiB" for size in (sink.size, shutil.disk_usage(target.parent).free))
            self.failure = f"{target} was not written: it needs {needed} and {free} are free; make room on this disk"
            rank_zero_warn(f"{self.failure}. Older checkpoints are kept, training goes on, the next save is tried.")
        else:
            self.failure = None

    def load_checkpoint(
        self, path: str | Path, map_location: Callable | None = lambda storage, _: storage, weights_only: Any = None
    ) -> dict[str, Any]:
        """Read a file after `verify`, without running code from it unless ``weights_only=False`` asks for that.

        Raises:
            InputError: for a file that is missing or damaged.
        """
        if "://" not in str(path):
            verify(path)
        return super().load_checkpoint(path, map_location, True if weights_only is None else weights_only)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a file, unless the last save failed: then the older one is all there is."""
        if self.failure is None:
            super().remove_checkpoint(path)


def check_readable(value: Any, what: str, path: tuple[Any, ...] = ()) -> None:
    """Refuse what ``torch.load(weights_only=True)`` would not read back.

    Args:
        value: the content of a checkpoint, or a part of it.
        what: is the matter, for the message.
        path: keys that lead to the part.

    Raises:
        InputError: names the keys that lead to the first such value, and its class.

    Examples:
        >>> check_readable({"callbacks": {"Mine": [1, {"rows": slice(0, 3)}]}}, "x.ckpt was not written")
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: x.ckpt was not written: callbacks.Mine.1.rows is a slice, which a checkpoint cannot \
hold, as it is read without running code; give numbers, texts, tensors, lists and dicts
    """
    if type(value) in (dict, OrderedDict):
        for key, part in value.items():
            check_readable(key, what, (*path, "a key"))
            check_readable(part, what, (*path, key))
    elif type(value) in (list, tuple):
        for place, part in enumerate(value):
            check_readable(part, what, (*path, place))
    elif type(value) not in _READABLE:
        try:
            torch.save(value, file := io.BytesIO())
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        except Exception:  # whatever pickling stumbles over: it cannot be kept
            raise InputError(
                f"{what}: {'.'.join(map(str, path))} is a {type(value).__qualname__}, which a checkpoint cannot hold, "
                "as it is read without running code; give numbers, texts, tensors, lists and dicts"
            ) from None


class _Sink:
    """A file for ``torch.save`` that goes on counting after an error, which torch would report as one of its own."""

    file: IO[bytes]
    size = 0
    error: OSError | None = None

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        return size

    def flush(self) -> None:
        """`atomic_write` flushes the file."""
