"""Data sets of the Hub: whole ones through ``datasets``, single files by their address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import hf_hub_download

from sentrep.errors import InputError

if TYPE_CHECKING:
    import datasets

HUB_FILE = "hf://datasets/"
"""How the address of a single file begins; the owner, the data set and the path in it follow."""


def load_hub_split(name: str, split: str) -> datasets.Dataset:
    """One split of a data set on the Hub, or of its local copy.

    Raises:
        InputError: there is no such data set or split, or the Hub cannot be reached.
    """
    return _load(name, split)


def stream_hub_split(name: str, split: str) -> datasets.IterableDataset:
    """The same, to be read from the Hub row by row: nothing is downloaded first. Raises as `load_hub_split`."""
    return _load(name, split, streaming=True)


def _load(name: str, split: str, **options: bool) -> Any:
    import datasets  # a second of import time that only its users should pay

    try:
        return datasets.load_dataset(name, split=split, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name}: no such local file, and the data set (split {split!r}) cannot be had from the Hub "
            f"({_first_line(error)}); check the name and the network, or download it and give the path"
        ) from error


def download_hub_file(address: str) -> Path:
    """Local copy of ``hf://datasets/owner/name/path``, fetched if it is not there yet.

    Raises:
        InputError: the address is incomplete, or the file cannot be had.
    """
    owner, _, rest = address.removeprefix(HUB_FILE).partition("/")
    name, _, path = rest.partition("/")
    if not (owner and name and path):
        raise InputError(f"{address}: expected {HUB_FILE}owner/name/file; complete the address")
    try:
        return Path(hf_hub_download(f"{owner}/{name}", path, repo_type="dataset"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{address}: cannot be had from the Hub ({_first_line(error)}); check the address and the network, or "
            "download the file and give its path"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
