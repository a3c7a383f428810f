"""Names of files that users give: refused where they lead to nothing, to no plain file, or nowhere to write."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sentrep.errors import InputError, did_you_mean
from sentrep.io.files import hidden

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room, or name a place on another disk"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "name a place that you may use, or change its rights"),
}


def expanded(path: str | Path) -> Path:
    """Expand ``~`` in a user's path; every path from a user goes through this function.

    A file or folder ``~name`` that exists is itself where no user has this name.

    Raises:
        InputError: for the home folder of an unknown user, and for a null character.
    """
    if "\0" in str(path):
        raise InputError(f"{str(path)!r}: a path has no null character in it; is it a file's content?")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        if os.path.lexists(path):
            return Path(path)
        raise InputError(f"{path}: there is no home folder {Path(path).parts[0]}; write the path in full") from None


def default_cache_dir() -> Path:
    """``$SENTREP_CACHE``, or ``~/.cache/sentrep``."""
    return expanded(os.environ.get("SENTREP_CACHE") or "~/.cache/sentrep")


def not_there(path: str | Path, what: str = "file") -> InputError:
    """The refusal of a name that leads nowhere, with the name nearby that was probably meant."""
    path = Path(path)
    if os.path.islink(path):
        return InputError(f"{path}: a link to {os.readlink(path)}, which does not exist; fix the link")
    nearby = os.listdir(path.parent) if os.access(path.parent, os.R_OK) and path.parent.is_dir() else []
    return InputError(f"{path}: no such {what}{did_you_mean(path.name, nearby)}")


def check_name(name: str, what: str) -> None:
    """Refuse an empty name, which would mean the current folder.

    Raises:
        InputError: names the input without a name.
    """
    if not name.strip():
        raise InputError(f"{what} has an empty name; is a variable of your script not set?")


def check_inside(inner: str, file: str | Path) -> None:
    """Refuse a path within a model folder that leads out of it.

    Args:
        inner: the path.
        file: of the folder, which names it.

    Raises:
        InputError: names both.
    """
    if Path(inner).is_absolute() or ".." in Path(inner).parts or "\0" in inner:
        raise InputError(f"{file}: the path {inner!r} leads out of the model folder; do not use this model")


def check_plain(path: str | Path) -> None:
    """Refuse what cannot be read from its beginning to its end, as often as needed: pipes, devices, folders.

    Raises:
        InputError: it is no plain file, or not there.
    """
    if not os.path.exists(path):
        raise not_there(path)
    if not os.path.isfile(path):
        raise InputError(
            f"{path}: {_kind(path)}, where a plain file is needed; name a file, or copy the content into one"
        )


def check_plain_files(folder: str | Path) -> None:
    """`check_plain` of everything in a folder but its folders.

    Raises:
        InputError: see there.
    """
    for path in Path(folder).iterdir():
        if not path.is_dir():
            check_plain(path)


def check_target(
    path: str | Path, inputs: Iterable[str | Path] = (), *, folder: bool = False, overwrite: bool = True
) -> None:
    """Refuse an output that cannot be written, before hours of work and not after them.

    Args:
        path: the file (or folder) that will be written.
        inputs: files that are read and must not be replaced.
        folder: whether it will be a folder.
        overwrite: whether an older file of this name may be replaced.

    Raises:
        InputError: the name is empty, too long or an address, something is in the way, the place takes no files, or the
            file is one that is read or that may not be replaced.
    """
    check_name(str(path), "the output")
    if "://" in str(path):
        raise InputError(f"{path}: an address, where only a place on this machine can be written to; name one")
    target = expanded(path)
    if os.path.lexists(target):
        if not (target.is_dir() if folder else target.is_file()):
            raise InputError(f"{path}: {_kind(target)} of this name is in the way; choose another output")
        if any(os.path.exists(other) and os.path.samefile(other, target) for other in inputs):
            raise InputError(f"{path}: this is also an input and would be lost; choose another output")
        if not folder and not overwrite:
            raise is_there(path)
    place = target if folder else target.parent
    while not os.path.lexists(place):
        place = place.parent
    trial = hidden(place / (target.name or "output"))  # the current folder and the root have no name
    with writing(path):
        trial.touch(exist_ok=False)
        trial.unlink()


def is_there(path: str | Path) -> InputError:
    """The refusal of an output that exists: nothing is replaced unasked."""
    return InputError(f"{path}: is there already; name another output, or replace it: --overwrite true")


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name the output when the disk or its rights do not let it be written.

    Raises:
        InputError: instead of the `OSError` of the block.
    """
    try:
        yield
    except OSError as error:
        what = f"cannot be written there ({error.strerror or error})"
        raise InputError(f"{path}: {what}; {remedy(error) or 'choose another output'}") from error


def remedy(error: OSError) -> str:
    """Advice on an error of the operating system, or an empty text."""
    return _REMEDIES.get(error.errno or 0, "")


def _kind(path: str | Path) -> str:
    known = {"a folder": os.path.isdir, "a file": os.path.isfile}
    return next((kind for kind, test in known.items() if test(path)), "a pipe, a device or a link to nothing")
