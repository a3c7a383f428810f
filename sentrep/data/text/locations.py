"""Files by path or by address (``s3://``, ``gs://``, ``hf://``, ``memory://``): every protocol that fsspec speaks."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import fsspec
from fsspec import AbstractFileSystem

from sentrep.errors import InputError


def is_address(name: str | Path) -> bool:
    """Whether a name is an address with a protocol, not a local path."""
    return "://" in str(name)


def file_system(name: str) -> tuple[AbstractFileSystem, str]:
    """The file system of an address, and the path on it.

    Raises:
        InputError: nothing installed speaks the protocol.
    """
    try:
        system, path = fsspec.url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{name}: cannot be reached ({error}); install the package of this protocol, or check its spelling"
        ) from error
    return system, path


def open_binary(name: str) -> BinaryIO:
    """A file to read, wherever it lies."""
    if not is_address(name):
        return open(name, "rb")
    system, path = file_system(name)
    return system.open(path, "rb")


def size_of(name: str) -> int:
    """Bytes of a file."""
    if not is_address(name):
        return Path(name).stat().st_size
    system, path = file_system(name)
    return int(system.size(path) or 0)


def find_addresses(pattern: str) -> list[str]:
    """The addresses that a pattern such as ``s3://bucket/part-*.txt`` or a plain address stands for, sorted.

    Raises:
        InputError: there is no such file, or the place cannot be reached.
    """
    system, path = file_system(pattern)
    try:
        found = sorted(match for match in system.glob(path) if system.isfile(match))
    except Exception as error:  # every protocol has exceptions of its own
        raise InputError(f"{pattern}: cannot be reached ({error}); check the address and the network") from error
    if not found:
        raise InputError(f"{pattern}: no such file; check the address")
    return [system.unstrip_protocol(match) for match in found]
