"""Files of embeddings from ``sentrep encode``: write parts, join them into one file, and read the result."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sentrep.data.parts import Parts, names_in, read_manifest
from sentrep.data.text.locations import is_address, open_binary
from sentrep.errors import InputError

Embedded = tuple[Sequence[str], NDArray[Any]]
"""Sentences (n) and their vectors (n, D)."""


class StoredEmbeddings:
    """The vectors of a finished folder, part by part; memory holds one part.

    Args:
        folder: a path or an address.

    Attributes:
        shape: (N, D).
        manifest: what ``manifest.json`` says: rows, settings, and the names of the parts.

    Raises:
        InputError: the folder is not finished, or not of ``sentrep encode``.
    """

    def __init__(self, folder: str) -> None:
        folder = str(folder).rstrip("/")
        self.manifest = read_manifest(folder)
        if missing := set(self.manifest["parts"]).difference(names_in(folder)):
            raise InputError(f"{folder}: {min(missing)} is missing; the command that began this folder finishes it")
        self._paths = [f"{folder}/{name}" for name in self.manifest["parts"]]
        self.shape = (int(self.manifest["rows"]), open_array(self._paths[0]).shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """The parts in the order of the rows, each (rows, D) float32."""
        for path in self._paths:
            yield open_array(path).astype(np.float32)


def _save_array(file: IO[bytes], embedded: Embedded) -> None:
    np.save(file, embedded[1])


def _save_table(file: IO[bytes], embedded: Embedded) -> None:
    sentences, vectors = embedded
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    pq.write_table(pa.table({"sentence": list(sentences), "embedding": column}), file)


SAVE: dict[str, Callable[[IO[bytes], Embedded], None]] = {".npy": _save_array, ".parquet": _save_table}
"""What writes a part, by its ending: an array (n, D), or a table with the columns ``sentence`` and ``embedding``."""


def join(parts: Parts, output: str) -> None:
    """Put finished parts together in a file.

    Raises:
        InputError: it cannot be written there; the parts stay.
    """
    parts.put_together(output, functools.partial(_join_tables if output.endswith(".parquet") else _join_arrays, parts))


def _join_tables(parts: Parts, file: IO[bytes]) -> None:
    with ExitStack() as stack:
        writer = None
        for path in parts.paths():
            with open_binary(path) as opened:
                table = pq.read_table(opened)
            writer = writer or stack.enter_context(pq.ParquetWriter(file, table.schema))
            writer.write_table(table)


def _join_arrays(parts: Parts, file: IO[bytes]) -> None:
    write_header(file, parts.rows, open_array(parts.paths()[0]))
    for path in parts.paths():
        file.write(open_array(path).tobytes())


def write_header(file: IO[bytes], rows: int, like: NDArray[Any]) -> None:
    """Begin the .npy file of an array (rows, D) with the type and the D of some rows.

    The header is as long for any number of rows, so that a file that grows can get the right one at its end.
    """
    header = {"descr": like.dtype.str, "fortran_order": False, "shape": (rows, like.shape[1])}
    np.lib.format.write_array_header_1_0(file, header)


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
