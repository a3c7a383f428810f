"""Names of files that users give: refused where they lead to nothing, to no plain file, or nowhere to write."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sentrep.errors import InputError, did_you_mean

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room, or name a place on another disk"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "name a place that you may use, or change its rights"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n)"),
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOMEM: "use a machine with more memory",
    errno.EIO: "check the disk",
    errno.EPIPE: "nobody reads the output any more",
}
_LONGEST_NAME = 200
"""Bytes of a file's name: what file systems hold, less what temporary names add."""


def expanded(path: str | Path) -> Path:
    """A path as a user gave it, with the home folder in the place of ``~``: the way in for each of them.

    Raises:
        InputError: for the home of a user whom this machine does not know, and for what no name can have in it.
    """
    if "\0" in str(path):
        raise InputError(f"{str(path)!r}: a path has no null character in it; is it a file's content?")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{path}: there is no home folder {Path(path).parts[0]}; write the path in full") from None


def not_there(path: str | Path, what: str = "file") -> InputError:
    """The refusal of a name that leads nowhere, with the name nearby that was probably meant."""
    path = Path(path)
    if os.path.islink(path):
        return InputError(f"{path}: a link to {os.readlink(path)}, where there is nothing; mend the link")
    try:
        nearby = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        nearby = []
    return InputError(f"{path}: no such {what}{did_you_mean(path.name, nearby)}")


def check_name(name: str, what: str) -> None:
    """Refuse an empty name, which would mean the current folder.

    Raises:
        InputError: says what has no name.
    """
    if not name.strip():
        raise InputError(f"{what} has an empty name; is a variable of your script not set?")


def check_plain(path: str | Path) -> None:
    """Refuse what cannot be read from its beginning to its end, as often as needed: pipes, devices, folders.

    Raises:
        InputError: it is no plain file, or not there.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise not_there(path) from None
    except (OSError, ValueError) as error:
        if os.path.islink(path):
            raise not_there(path) from None
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', error)}); check the path") from error
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise InputError(f"{path}: {kind}, where a plain file is needed; name a file, or copy the content into one")


def check_plain_files(folder: str | Path) -> None:
    """`check_plain` of everything in a folder but its folders.

    Raises:
        InputError: see there.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                check_plain(entry.path)


def check_target(path: str | Path, inputs: Iterable[str | Path] = (), *, folder: bool = False) -> None:
    """Refuse an output that cannot be written, before hours of work and not after them.

    Args:
        path: the file (or folder) that will be written; an older file of this name may be replaced.
        inputs: what is read, and must not be replaced.
        folder: whether it will be a folder.

    Raises:
        InputError: the name is empty, too long or an address, something is in the way, the place takes no files, or the
            file is one that is read.
    """
    check_name(str(path), "the output")
    if "://" in str(path):
        raise InputError(f"{path}: an address, where only a place on this machine can be written to; name one")
    target = expanded(path)
    if len(os.fsencode(target.name)) > _LONGEST_NAME:
        raise InputError(f"{target.name[:40]}...: the name is too long; choose a shorter one")
    if os.path.lexists(target):
        mode = os.stat(target).st_mode if os.path.exists(target) else 0
        if not (stat.S_ISDIR if folder else stat.S_ISREG)(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "a file" if mode else "a link to nothing")
            raise InputError(f"{path}: {kind} of this name is in the way; choose another output")
        for other in inputs:
            if os.path.exists(other) and os.path.samefile(other, target):
                raise InputError(f"{path}: this is what is read, and it would be lost; choose another output")
    place = target if folder else target.parent
    while not os.path.lexists(place):
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise InputError(unwritable(path, error)) from None


def unwritable(path: str | Path, error: OSError) -> str:
    """The sentence for an output that could not be written."""
    return f"{path}: cannot be written there ({error.strerror or error}); {remedy(error) or 'choose another output'}"


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name the output when the disk or its rights do not let it be written.

    Raises:
        InputError: instead of the `OSError` of the block.
    """
    try:
        yield
    except OSError as error:
        raise InputError(unwritable(path, error)) from error


def remedy(error: OSError) -> str:
    """What to do about an error of the operating system; empty where there is nothing general to say."""
    return _REMEDIES.get(error.errno or 0, "")
