"""Names of files that users give: refused where they lead to nothing, to no plain file, or nowhere to write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sentrep.errors import InputError, did_you_mean

MODEL = "model"
"""Name of the chosen encoder's folder in the folder of a run."""


def expanded(path: str | Path) -> Path:
    """Expand ``~`` in a user's path; every path from a user goes through this function.

    The home of an unknown user stays as it is written, and is then a file that does not exist.
    """
    return Path(os.path.expanduser(path))


def default_cache_dir() -> Path:
    """``$SENTREP_CACHE``, or ``~/.cache/sentrep``."""
    return expanded(os.environ.get("SENTREP_CACHE") or "~/.cache/sentrep")


def not_there(path: str | Path, what: str = "file") -> InputError:
    """The refusal of a name that leads nowhere, with the name nearby that was probably meant."""
    path = Path(path)
    nearby = os.listdir(path.parent) if path.parent.is_dir() else []
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
        raise InputError(f"{path}: a plain file is needed here; name one, or copy the content into one")


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
        InputError: the name is empty or an address, something is in the way, the place takes no files, or the file is
            one that is read or that may not be replaced.
    """
    check_name(str(path), "the output")
    if "://" in str(path):
        raise InputError(f"{path}: an address, where only a place on this machine can be written to; name one")
    target = expanded(path)
    if target.exists():
        if target.is_dir() != folder:
            raise InputError(f"{path}: {'a file' if folder else 'a folder'} of this name is in the way; choose another")
        if any(os.path.exists(other) and target.samefile(other) for other in inputs):
            raise InputError(f"{path}: this is also an input and would be lost; choose another output")
        if not folder and not overwrite:
            raise is_there(path)
    place = target if folder else target.parent
    with writing(path):
        tempfile.TemporaryFile(dir=next(above for above in (place, *place.parents) if above.exists())).close()


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
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); choose another output") from error
