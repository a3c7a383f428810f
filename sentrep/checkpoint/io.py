"""Writing checkpoint files: whole or not at all, and nothing that could not be read again."""

from __future__ import annotations

import errno
import hashlib
import io
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any

import torch
from lightning.fabric.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.rank_zero import rank_zero_warn

from sentrep.errors import InputError
from sentrep.io.checkpoint_file import verify
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
        self._written: tuple[Path, bytes] | None = None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        """Write one file, whole or not at all.

        Raises:
            InputError: for a content that could not be read again; nothing is written.
            OSError: for anything but a full disk or an exhausted quota.
        """
        if found := unreadable(checkpoint):
            place = ".".join(map(str, found[0]))
            raise InputError(
                f"{path} was not written: {place} is a {type(found[1]).__qualname__}, which a checkpoint cannot hold; "
                "let the callback or plug-in give numbers, texts, tensors, lists and dicts"
            )
        if storage_options is not None or "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        target, content = Path(path), _fingerprint(checkpoint) if self.links else b""
        before, self._written = self._written, None
        try:
            if not (before and before[1] == content and content and link(before[0], target)):
                with atomic_write(target) as file:
                    _write(checkpoint, file)
            self._written = (target, content)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            free = shutil.disk_usage(target.parent).free
            self.failure = (
                f"{target} was not written: it needs {_mib(_size(checkpoint))} and {_mib(free)} are free; "
                "make room on this disk"
            )
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


def unreadable(value: Any, path: tuple[Any, ...] = ()) -> tuple[tuple[Any, ...], Any] | None:
    """The first thing in a checkpoint that ``torch.load(weights_only=True)`` would refuse.

    Args:
        value: the content, or a part of it.
        path: keys that lead to the part.

    Returns:
        The keys that lead there and the value; None where all can be read.

    Examples:
        >>> unreadable({"a": [1, {"b": slice(0, 3)}]})
        (('a', 1, 'b'), slice(0, 3, None))
    """
    parts: Iterable[tuple[tuple[Any, ...], Any]]
    if type(value) in (dict, OrderedDict):
        parts = chain(((("a key",), key) for key in value), (((key,), part) for key, part in value.items()))
    elif type(value) in (list, tuple):
        parts = (((place,), part) for place, part in enumerate(value))
    elif type(value) in _READABLE:
        return None
    else:
        try:
            torch.save(value, file := io.BytesIO())
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        except Exception:  # whatever pickling stumbles over: it cannot be kept
            return path, value
        return None
    return next((found for key, part in parts if (found := unreadable(part, path + key))), None)


_SAMPLES = 1 << 13
"""Numbers of a tensor that `_fingerprint` looks at; random states have fewer."""


def _fingerprint(value: Any) -> bytes:
    """Tells the content of a checkpoint from that of the one before, without reading all of its weights.

    Two are the same where all but large tensors is, and these lie at the same place and agree in samples. A training
    step in between changes the counters of steps.
    """
    digest = hashlib.blake2b()

    def add(part: Any) -> None:
        digest.update(type(part).__name__.encode())
        if isinstance(part, torch.Tensor):
            flat = part.detach().reshape(-1)
            place = 0 if len(flat) <= _SAMPLES else part.data_ptr()
            digest.update(f"{part.dtype} {tuple(part.shape)} {place}".encode())
            few = flat[:: max(1, len(flat) // 64) if place else 1].contiguous().cpu()
            digest.update(few.view(torch.uint8).numpy().tobytes())
        elif isinstance(part, dict):
            for key, below in part.items():
                add(key)
                add(below)
        elif isinstance(part, (list, tuple)):
            for below in part:
                add(below)
        else:
            digest.update(repr(part).encode())
        digest.update(b";")

    add(value)
    return digest.digest()


class _Sink:
    """A file for ``torch.save`` that remembers its error: torch reports a failed write as a RuntimeError of its own."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self.file = file
        self.size = 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.size += memoryview(data).nbytes
        if self.file is not None and self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
                raise
        return memoryview(data).nbytes

    def flush(self) -> None:
        if self.file is not None:
            self.file.flush()


def _write(checkpoint: dict[str, Any], file: IO[bytes]) -> None:
    sink = _Sink(file)
    try:
        torch.save(checkpoint, sink)  # type: ignore[arg-type]
    except Exception as error:
        raise sink.error or error from None


def _size(checkpoint: dict[str, Any]) -> int:
    sink = _Sink(None)
    torch.save(checkpoint, sink)  # type: ignore[arg-type]
    return sink.size


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
