"""Files by path or by address (``s3://``, ``hf://``, ``memory://``: what fsspec speaks)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import fsspec
from fsspec import AbstractFileSystem
from huggingface_hub import hf_hub_download

from sentrep.errors import InputError, first_line
from sentrep.io.hub import fail_fast

HUB_FILE = "hf://datasets/"
"""How the address of a single file on the Hub begins; the owner, the data set and the path in it follow."""


def is_address(name: str | Path) -> bool:
    """Whether a name is an address with a protocol, not a local path."""
    return "://" in str(name)


def file_system(name: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a path or an address, and the path on it.

    A path is made absolute: fsspec would read ``b.txt`` for ``file:b.txt``, and look for two file systems in ``a::b``.

    Raises:
        InputError: nothing installed speaks the protocol.
    """
    if not is_address(name):
        return fsspec.filesystem("file"), os.path.abspath(name)
    try:
        system, path = fsspec.url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{name}: cannot be reached ({error}); install the package of this protocol, or check its spelling"
        ) from error
    return system, path


def open_binary(name: str) -> BinaryIO:
    """A file to read, wherever it lies."""
    system, path = file_system(name)
    return system.open(path, "rb")


def find_files(pattern: str) -> list[str]:
    """The files that a path, an address or a pattern such as ``s3://bucket/part-*.txt`` stands for, sorted.

    Raises:
        InputError: an address cannot be reached.
    """
    system, path = file_system(pattern)
    fail_fast()
    try:
        found = sorted(match for match in system.glob(path) if system.isfile(match))
    except Exception as error:  # every protocol has exceptions of its own
        raise InputError(f"{pattern}: cannot be reached ({error}); check the address and the network") from error
    return [system.unstrip_protocol(match) for match in found] if is_address(pattern) else list(map(os.fspath, found))


def download_hub_file(address: str) -> Path:
    """Local copy of ``hf://datasets/owner/name/path``, fetched if it is not there yet.

    Raises:
        InputError: the address is incomplete, or the file cannot be downloaded.
    """
    owner, _, rest = address.removeprefix(HUB_FILE).partition("/")
    name, _, path = rest.partition("/")
    if not (owner and name and path):
        raise InputError(f"{address}: expected {HUB_FILE}owner/name/file; complete the address")
    fail_fast()
    try:
        return Path(hf_hub_download(f"{owner}/{name}", path, repo_type="dataset"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{address}: cannot be downloaded from the Hub ({first_line(error)}); check the address and the network, "
            "or download the file and give its path"
        ) from error
