"""An array that grows on the disk row by row, and appears under its name when it is complete."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from sentrep.io.files import atomic_write
from sentrep.io.paths import writing


class NpyWriter:
    """A NumPy array (N, D) float32; the header, which holds N, is written at the end in the room left for it.

    Args:
        path: the final file.

    Raises:
        InputError: when it cannot be written there, from every method.
    """

    HEADER = 128
    """Bytes of the header of two dimensions, whatever N and D are."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows, self._width = path, 0, 0
        self._unfinished = ExitStack()
        with writing(path):
            self._file = self._unfinished.enter_context(atomic_write(path))
            self._file.seek(self.HEADER)

    def write(self, embeddings: np.ndarray) -> None:
        """Append rows (n, D)."""
        with writing(self.path):
            self._file.write(np.ascontiguousarray(embeddings, dtype="<f4").tobytes())
        self.rows, self._width = self.rows + len(embeddings), embeddings.shape[1]

    def close(self) -> None:
        """Finish the file and give it its name, replacing an older one."""
        shape = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self._width)}
        with writing(self.path):
            self._file.seek(0)
            np.lib.format.write_array_header_1_0(self._file, shape)
            self._unfinished.close()

    def discard(self) -> None:
        """Remove the unfinished file."""
        with suppress(OSError):  # what it has not written yet finds no room either
            self._unfinished.__exit__(RuntimeError, RuntimeError("discarded"), None)
