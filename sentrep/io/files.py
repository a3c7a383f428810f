"""Files and folders that are written whole under their name or not at all, and the lock on a folder."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from sentrep.errors import InputError


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """Open a file that appears under its name when the block ends, and not at all when the block raises.

    Until then it has a hidden name of its own in the same folder. It is on the disk before it is renamed, and the
    folder after it. The file has the rights that the umask gives, so that a folder can be shared by a group.

    Args:
        path: the final name; its folder is made. An older file of this name is replaced.
        mode: ``wb`` or ``w``.
        options: of `open`, such as ``encoding`` and ``newline``.

    Raises:
        OSError: the folder or the disk does not take it; nothing is left behind, and an older file is as it was.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_write(f"{folder}/a.txt", "w", encoding="utf-8") as file:
        ...         _ = file.write("whole")
        ...     Path(folder, "a.txt").read_text(encoding="utf-8")
        'whole'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden(target)
    try:
        with open(temporary, mode, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Give a hidden folder to fill, whose content appears under ``path`` when the block ends, not when it raises.

    A folder that is not there yet appears in one piece. Into one that is there the files are moved one by one, each
    whole; what else lies in it stays.

    Args:
        path: the final name; folders above it are made.

    Raises:
        OSError: the place or the disk does not take it, or a folder of this name has appeared meanwhile; nothing is
            left behind.
    """
    target = Path(path)
    there = target.is_dir()
    temporary = _hidden(target / target.name if there else target)  # a folder may be a disk: no rename leads into it
    temporary.mkdir(parents=True)
    try:
        yield temporary
        files = [file for file in temporary.rglob("*") if file.is_file()]
        for file in files:
            with file.open("rb") as content:
                os.fsync(content.fileno())
        if not there:
            os.replace(temporary, target)
        for file in files if there else ():
            final = target / file.relative_to(temporary)
            final.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, final)
        _sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """`atomic_write` of a UTF-8 text."""
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(text)


def _hidden(target: Path) -> Path:
    """A name of its own beside a file or folder, until that is whole."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def remove_leftovers(folder: str | Path, below: bool = True) -> None:
    """Remove what killed processes have half written in a folder, below, or in its name; only for who `hold`s it."""
    place, ending = Path(folder), f"*.{'[0-9a-f]' * 8}.tmp"
    inside = place.rglob(f".{ending}") if below else place.glob(f".{ending}")
    for temporary in [*inside, *place.parent.glob(f".{glob.escape(place.name)}{ending[1:]}")]:
        shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink(missing_ok=True)


@contextmanager
def hold(path: str | Path, what: str) -> Iterator[None]:
    """Lock a resource against all other processes by its lock file; the only lock of sentrep.

    The operating system holds the lock (flock), and releases it when the process ends in any way. It works on one
    machine, and between machines if the file system supports locks (NFS, Lustre with ``flock``). The file is deleted
    when the block ends.

    Args:
        path: of the lock file; its folder is created.
        what: name of the resource, for the message.

    Raises:
        InputError: another process holds it.
        OSError: the file system refuses locks, or the file cannot be made.
    """
    try:
        with FileLock(path, blocking=False):
            try:
                yield
            finally:
                Path(path).unlink()
    except Timeout:
        raise InputError(f"another process is at work on {what}; wait for it, or end it") from None


def _sync_folder(folder: Path) -> None:
    """Make the rename last: a folder is a file too."""
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
