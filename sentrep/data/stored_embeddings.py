"""Reading the folder of embeddings that ``sentrep encode`` writes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sentrep.data.text.locations import is_address, open_binary
from sentrep.errors import InputError

FORMAT = "sentrep embeddings 1"
MANIFEST = "manifest.json"


class StoredEmbeddings:
    """The vectors of a finished folder, part by part; memory holds one part.

    Args:
        folder: a path or an address.

    Attributes:
        shape: (N, D).
        manifest: what ``manifest.json`` says: settings, and file, first row, rows and scales of every part.

    Raises:
        InputError: the folder is not finished, or not of ``sentrep encode``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = str(folder).rstrip("/")
        try:
            with open_binary(f"{self._folder}/{MANIFEST}") as file:
                self.manifest: dict[str, Any] = json.load(file)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder}: no manifest of embeddings ({error}); is it finished? The command that began it finishes it"
            ) from error
        if self.manifest.get("format") != FORMAT:
            raise InputError(f"{folder}: written by another version of sentrep; encode again")
        self.shape = (int(self.manifest["rows"]), int(self.manifest["dimension"]))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """The parts in the order of the rows, each (rows, D) float32, int8 multiplied by its scales."""
        for part in self.manifest["parts"]:
            vectors = open_array(f"{self._folder}/{part['file']}").astype(np.float32)
            yield vectors * np.array(part["scale"], np.float32) if "scale" in part else vectors


def open_array(name: str) -> NDArray[Any]:
    """The vectors (n, D) of one .npy or .parquet file, as they are stored; a local .npy through a memory map."""
    if name.endswith(".parquet"):
        with open_binary(name) as file:
            column = pq.read_table(file, columns=["embedding"])["embedding"].combine_chunks()
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    if not is_address(name):
        array: NDArray[Any] = np.load(name, mmap_mode="r")
        return array
    with open_binary(name) as file:
        return np.load(io.BytesIO(file.read()))
