"""Files that grow chunk by chunk and appear under their name only when they are complete."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sentrep.data.text.locations import file_system, is_address
from sentrep.errors import InputError
from sentrep.io.files import atomic_write
from sentrep.io.paths import writing


class EmbeddingWriter(ABC):
    """Takes embeddings in chunks; as a context manager it discards the file after an exception.

    Args:
        path: the final file, or an address that fsspec writes to. Until `close` the rows are in a hidden file beside
            it, or for an address in the folder of temporary files.
        dtype: of the numbers in the file.

    Raises:
        InputError: when it cannot be written there, from every method.
    """

    def __init__(self, path: str | Path, dtype: str = "float32") -> None:
        self.path = path if is_address(path) else Path(path)
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.rows = 0
        self._unfinished = ExitStack()
        with writing(path):
            place = atomic_write(self.path) if isinstance(self.path, Path) else _upload(self.path)
            self._file: IO[bytes] = self._unfinished.enter_context(place)

    @abstractmethod
    def _append(self, sentences: Sequence[str], embeddings: np.ndarray) -> None:
        """Write rows, converted to `dtype`."""

    @abstractmethod
    def _finish(self) -> None:
        """Write what the format wants at the end."""

    def write(self, sentences: Sequence[str], embeddings: np.ndarray) -> None:
        """Append rows: sentences (n) and their embeddings (n, D)."""
        with writing(self.path):
            self._append(sentences, embeddings)
        self.rows += len(embeddings)

    def close(self) -> None:
        """Finish the file and give it its name, replacing an older one."""
        with writing(self.path):
            self._finish()
            self._unfinished.close()

    def discard(self) -> None:
        """Remove the unfinished file."""
        with suppress(OSError):  # what it has not written yet finds no room either
            self._unfinished.__exit__(RuntimeError, RuntimeError("discarded"), None)

    def __enter__(self) -> EmbeddingWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.discard()


class NpyWriter(EmbeddingWriter):
    """A NumPy array (N, D); the header, which holds N, is rewritten at the end in the room left for it."""

    HEADER = 128
    """Bytes of the header: magic string, version, shape, padded with blanks."""
    _width = 0

    def _append(self, sentences: Sequence[str], embeddings: np.ndarray) -> None:
        if not self.rows:
            self._file.seek(self.HEADER)
        self._width = embeddings.shape[1]
        self._file.write(np.ascontiguousarray(embeddings, dtype=self.dtype).tobytes())

    def _finish(self) -> None:
        shape = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': ({self.rows}, {self._width}), }}"
        magic = np.lib.format.magic(1, 0)
        text = shape.ljust(self.HEADER - len(magic) - 3) + "\n"
        self._file.seek(0)
        self._file.write(magic + len(text).to_bytes(2, "little") + text.encode("latin1"))


class ParquetWriter(EmbeddingWriter):
    """A table with the columns ``sentence`` (string) and ``embedding`` (fixed-size list of D numbers)."""

    _writer: pq.ParquetWriter | None = None

    def _append(self, sentences: Sequence[str], embeddings: np.ndarray) -> None:
        values = pa.array(np.ascontiguousarray(embeddings, dtype=self.dtype).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(values, embeddings.shape[1])
        table = pa.table({"sentence": list(sentences), "embedding": vectors})
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()


@contextmanager
def _upload(address: str) -> Iterator[IO[bytes]]:
    """A temporary file that goes to its address when the block ends, and nowhere when the block raises."""
    system, place = file_system(address)
    with tempfile.NamedTemporaryFile(prefix="sentrep-", suffix=".tmp") as file:
        yield file
        file.flush()
        system.put_file(file.name, place)


def open_writer(path: str | Path, dtype: str = "float32") -> EmbeddingWriter:
    """The writer for a file name or address.

    Raises:
        InputError: for an ending other than .npy and .parquet.
    """
    writers: dict[str, type[EmbeddingWriter]] = {".npy": NpyWriter, ".parquet": ParquetWriter}
    suffix = Path(path).suffix
    if suffix not in writers:
        raise InputError(f"cannot write {path}: the output file must end in {' or '.join(writers)}")
    return writers[suffix](path, dtype)
