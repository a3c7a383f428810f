"""Compressed files, opened: gzip, bzip2, xz and zstandard streams, and the files in a zip archive."""

from __future__ import annotations

import bz2
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Any, BinaryIO, cast

import pyarrow as pa

from sentrep.data.text.locations import open_binary

_STREAMS: dict[str, Callable[[], Any]] = {
    ".gz": partial(zlib.decompressobj, 31),  # 31: with gzip's header
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
}
COMPRESSED = (*_STREAMS, ".zip", ".zst")
"""The endings of compressed files."""
_CHUNK = 1 << 16


def open_files(name: str) -> Iterator[BinaryIO]:
    """The file of a path or an address, decompressed as its ending says; of a zip archive, all files but hidden ones.

    Raises:
        OSError, EOFError, ValueError and others: the file is damaged or cut off, perhaps while it is read.
    """
    ending = PurePath(name).suffix.lower()
    with open_binary(name) as file:
        if ending == ".zip":
            with zipfile.ZipFile(file) as archive:
                for member in sorted(archive.namelist()):
                    if not any(part.startswith((".", "__")) for part in member.split("/")) and member[-1] != "/":
                        with archive.open(member) as opened:
                            yield cast(BinaryIO, opened)
        elif ending == ".zst":
            yield pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        elif ending in _STREAMS:
            yield cast(BinaryIO, io.BufferedReader(_Streams(file, _STREAMS[ending]), _CHUNK))
        else:
            yield file


class _Streams(io.RawIOBase):
    """The content of compressed streams, one behind the other.

    Zero bytes behind a stream are padding. Python's own readers refuse them, or silently drop the streams behind them.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file, self._new = file, new
        self._stream: Any = new()
        self._packed = self._content = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer.

        Raises:
            EOFError: the last stream does not end.
        """
        while not self._content:
            packed, self._packed = self._packed or self._file.read(_CHUNK), b""
            if not packed:
                if self._stream is not None:
                    raise EOFError("the compressed stream does not end")
                return 0
            if self._stream is None and (packed := packed.lstrip(b"\0")):
                self._stream = self._new()
            if self._stream is not None:
                self._content = self._stream.decompress(packed)
                self._packed = self._stream.unused_data
                self._stream = None if self._stream.eof else self._stream
        count = min(len(buffer), len(self._content))
        buffer[:count], self._content = self._content[:count], self._content[count:]
        return count
