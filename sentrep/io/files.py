"""Files that several processes may write or read at once: written whole under their name or not at all, and locked."""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from sentrep.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_ENDING = ".tmp"
_held: set[Path] = set()
"""Lock files of this process."""


class BusyError(InputError):
    """Another process holds a lock."""


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
    remove_leftovers(target.parent, glob.escape(target.name))
    temporary, file = _open_own(target, mode, options)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)  # while the lock is held: nobody takes it for a leftover
        _sync_folder(target.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = str(target)  # a disk that is full does not say for whom
        raise


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Give a hidden folder to fill, whose content appears under ``path`` when the block ends, not when it raises.

    A folder that is not there yet appears in one piece. Into one that is there the files are moved one by one, each
    whole; what else lies in it stays.

    Args:
        path: the final name; folders above it are made.

    Raises:
        BusyError: a folder of this name has appeared meanwhile.
        OSError: the place or the disk does not take it; nothing is left behind.
    """
    target = Path(path)
    there = target.is_dir()
    place = target if there else target.parent
    place.mkdir(parents=True, exist_ok=True)
    remove_leftovers(place, glob.escape(target.name))
    temporary, handle = _make_own(place, target.name)
    try:
        yield temporary
        files = [file for file in temporary.rglob("*") if file.is_file()]
        for file in files:
            with file.open("rb") as content:
                os.fsync(content.fileno())
        if not there:
            _appear(temporary, target)
        for file in files if there else ():
            final = target / file.relative_to(temporary)
            final.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, final)
        _sync_folder(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def link(source: str | Path, path: str | Path) -> bool:
    """Give a file a second name, at once and in place of what had it; False where the file system cannot (hard links).

    Nothing is written but the name. Both names stand for one content until a file is put in place of either.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_ENDING}")
    try:
        os.link(source, temporary)
    except (OSError, NotImplementedError):
        return False
    try:
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)  # still there where both names stood for this file before
    _sync_folder(target.parent)
    return True


def write_text(path: str | Path, text: str) -> None:
    """`atomic_write` of a UTF-8 text."""
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(text)


def remove_leftovers(folder: str | Path, name: str = "*") -> None:
    """Remove what killed processes have half written, and nothing that a living one is at work on.

    Args:
        folder: of the files.
        name: of the file or folder that was to be written; may be a pattern.
    """
    for temporary in Path(folder).glob(f".{name}.*{_ENDING}"):
        with suppress(FileNotFoundError, PermissionError), _opened(temporary) as handle:  # renamed by now; not ours
            if _lock(handle):  # else its writer lives
                shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink(missing_ok=True)


@contextmanager
def hold(path: str | Path, what: str, wait: bool = False) -> Iterator[None]:
    """Keep every other process from what a lock file stands for.

    The lock is one of the operating system (flock): it ends with the process, however that ends. It holds on one
    machine, and between machines where the file system passes locks on (NFS, Lustre with ``flock``). Its file says who
    has it, and goes when the block ends.

    Args:
        path: of the lock file; its folder is made.
        what: the other process is at work on, for the message.
        wait: until it is free, for work of a moment.

    Raises:
        BusyError: another process holds it.
        InputError: the file system refuses locks, or the file cannot be made.
    """
    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        raise _busy(Path(path), what) from None
    except (OSError, NotImplementedError) as error:
        raise InputError(f"{path}: cannot be locked ({error}); use a folder on another file system") from error
    place = Path(path).resolve()
    _held.add(place)
    try:
        place.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
    finally:
        _held.discard(place)
        with suppress(OSError):  # a system that keeps open files under their names
            place.unlink()
        lock.release()


def refuse_within(folder: str | Path, lock: str) -> None:
    """Refuse a place below a folder that another process is at work on.

    Args:
        folder: that is to be written to.
        lock: name of the lock file of every folder above.

    Raises:
        BusyError: another process holds one of them.
    """
    for above in Path(folder).resolve().parents:
        path = above / lock
        with suppress(OSError), _opened(path) as handle:  # there is none, or it is not for us to open
            if path not in _held and not _lock(handle):
                raise _busy(path, str(above))


def _busy(lock: Path, what: str) -> BusyError:
    who = ""
    with suppress(OSError, UnicodeDecodeError):  # it is gone by now, or was not written yet
        who = lock.read_text(encoding="utf-8")
    return BusyError(f"another process is at work on {what}{f' ({who})' if who else ''}; wait for it, or end it")


def _make_own(place: Path, name: str) -> tuple[Path, int | None]:
    """A temporary folder that this process holds a lock on, as long as its handle is open; Windows has none."""
    while True:
        temporary = place / f".{name}.{secrets.token_hex(4)}{_ENDING}"
        temporary.mkdir()
        if os.name == "nt":
            return temporary, None
        handle = os.open(temporary, os.O_RDONLY)
        _lock(handle)
        if temporary.exists():  # else it was taken for a leftover before it was locked
            return temporary, handle
        os.close(handle)


def _appear(temporary: Path, target: Path) -> None:
    """Rename a folder that was not there when it was begun: of several processes one wins."""
    try:
        os.replace(temporary, target)
    except OSError:
        if not target.is_dir():
            raise
        raise BusyError(f"{target}: another process has written it meanwhile; choose another folder") from None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A file or folder, to be locked."""
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_own(target: Path, mode: str, options: dict[str, Any]) -> tuple[Path, IO[Any]]:
    """A temporary file that this process holds a lock on, as long as it is open."""
    while True:
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_ENDING}")
        file = open(temporary, mode, **options)  # noqa: SIM115 (closed by the caller)
        _lock(file)
        if temporary.exists():  # else it was taken for a leftover before it was locked
            return temporary, file
        file.close()


def _lock(file: IO[Any] | int) -> bool:
    """Whether this process has the lock on an open file now; never where there are no such locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make the rename last: a folder is a file too."""
    if os.name == "nt":  # cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
