"""Rows of one text table: txt, csv, tsv, jsonl or parquet, compressed or not, streamed from the disk."""

from __future__ import annotations

import csv
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.compression import compr
from fsspec.utils import infer_compression

from sentrep.data.text.cells import Columns, check_delimiter, parse_json, pick_columns
from sentrep.data.text.fingerprints import hash_files
from sentrep.data.text.lines import LONGEST_LINE, read_lines
from sentrep.data.text.locations import is_address, open_binary, size_of
from sentrep.errors import InputError
from sentrep.io.paths import check_plain

_RECORD = 100
"""Lines of a csv, tsv or jsonl file may be so many times as long as a cell: cells are found in whole lines only."""


class Row(NamedTuple):
    """The wanted cells of one row, and where it starts."""

    line: int
    """Line of the file, or number of the row in a parquet file or data set, from 1."""
    cells: tuple[Any, ...]


class TableFile:
    """One file of rows; the format and the compression come from the name, for example ``pairs.tsv.gz``.

    A ``.txt`` file has one sentence a line, in a column called ``text``; a line ends at LF, CR LF or CR and nowhere
    else. A ``.csv`` file follows RFC 4180: quoted cells may hold commas and line breaks. A ``.tsv`` file has no
    quoting: a quotation mark is a plain character. Both have a header unless the columns are given as positions.
    A ``.jsonl`` file has one object a line. Text is UTF-8, with or without a byte order mark. Empty lines are blank
    rows, except before the first row of a csv, tsv or jsonl file.

    Args:
        path: or address.
        longest: characters of a line of a ``.txt`` file; a longer one gives its first ``longest + 1``. A line of a csv,
            tsv or jsonl file may have a hundred times as many.

    Raises:
        InputError: the name has no known extension, or while reading: a pipe or a device, a line that is too long, a
            ragged row, a column that is missing or stands there twice, cells that another character separates, a
            damaged file; with the file and the line.
    """

    def __init__(self, path: str | Path, longest: int = LONGEST_LINE) -> None:
        self.name, self._longest = str(path), longest
        self.compression = infer_compression(self.name)
        self.format = Path(self.name[: self.name.rindex(".")] if self.compression else self.name).suffix.lower()
        if self.format not in _READERS:
            raise InputError(
                f"{path}: unknown kind of file; the name must end in {', '.join(_READERS)}, possibly compressed "
                "(.gz, .bz2, .xz, .zip, .zst)"
            )
        self.unit = "row" if self.format == ".parquet" else "line"
        self._raw: BinaryIO | None = None
        self._size = 1

    @property
    def fraction_read(self) -> float:
        """How much of the file the current reading has consumed, in [0, 1]."""
        return self._raw.tell() / self._size if self._raw and not self._raw.closed else 0.0

    def fingerprint(self) -> str:
        """Hash of the format and the content; the name and the dates do not enter."""
        return hash_files(f"{self.format} {self.compression}", [self.name])

    def stamp(self) -> str:
        """The name without its folder and the size, for text that is too large to hash."""
        return f"{Path(self.name).name} {size_of(self.name)}"

    def rows(self, columns: Columns | None = None) -> Iterator[Row]:
        """The rows, a few at a time from the disk.

        Args:
            columns: what to read; None means the only column, or ``sent0, sent1[, hard_neg]``, ``text``, ``sentence``.
        """
        try:
            with self._open() as stream:
                yield from _READERS[self.format](stream, self.name, columns, self._longest)
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException) as error:
            raise InputError(f"{self.name}: cannot be read ({error}); is the file damaged or cut off?") from error

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        if self.compression not in compr:
            raise InputError(
                f"{self.name}: no package here reads this compression; unpack the file or compress with gzip"
            )
        if not is_address(self.name):
            check_plain(self.name)
        with open_binary(self.name) as self._raw:
            if self.compression and size_of(self.name) == 0:
                raise InputError(f"{self.name}: empty, where compressed text was expected; write the file again")
            self._size = max(1, size_of(self.name))
            if self.compression == "zip" and len(members := zipfile.ZipFile(self._raw).namelist()) != 1:
                raise InputError(f"{self.name}: the archive holds {len(members)} files; expected exactly one")
            yield compr[self.compression](self._raw, mode="rb")


def _records(stream: BinaryIO, name: str, longest: int, newline: str | None = None) -> Iterator[str]:
    """Lines that are of use as a whole only."""
    for number, line in enumerate(read_lines(stream, _RECORD * longest, newline), start=1):
        if len(line) > _RECORD * longest:
            raise InputError(
                f"{name}, line {number}: more than {_RECORD * longest:,} characters; expected one row a line, so are "
                "line ends missing?"
            )
        yield line


def _read_text(stream: BinaryIO, name: str, columns: Columns | None, longest: int) -> Iterator[Row]:
    pick_columns(name, ["text"], columns)
    for number, line in enumerate(read_lines(stream, longest), start=1):
        yield Row(number, (line.removesuffix("\n"),))


def _read_csv(stream: BinaryIO, name: str, columns: Columns | None, longest: int) -> Iterator[Row]:
    reader = csv.reader(_records(stream, name, longest, newline=""), strict=True)
    return _read_delimited(reader, ",", name, columns)


def _read_tsv(stream: BinaryIO, name: str, columns: Columns | None, longest: int) -> Iterator[Row]:
    reader = csv.reader(_records(stream, name, longest, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    return _read_delimited(reader, "\t", name, columns)


def _read_delimited(reader: Any, delimiter: str, name: str, columns: Columns | None) -> Iterator[Row]:
    positions: list[int] | None = None
    width, line = 0, 1
    try:
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not cells:  # an empty line
                if positions is not None:
                    yield Row(start, (None,) * len(positions))
                continue
            if positions is None:
                width = len(cells)
                if columns is None or (isinstance(columns[0], str) and columns[0] != cells[0]):
                    check_delimiter(f"{name}, line {start}", cells, delimiter)
                positions = _positions(f"{name}, line {start}", cells, columns)
                if not _headless(columns):
                    continue
            if len(cells) != width:
                raise InputError(
                    f"{name}, line {start}: {len(cells)} cells where the first row has {width}; mend or quote this row"
                )
            yield Row(start, tuple(cells[position] for position in positions))
    except csv.Error as error:
        raise InputError(f"{name}, line {line}: {error}; is a quotation mark missing or not doubled?") from error


def _headless(columns: Columns | None) -> bool:
    return columns is not None and all(isinstance(column, int) for column in columns)


def _positions(where: str, first_row: list[str], columns: Columns | None) -> list[int]:
    if columns is None or not _headless(columns):
        return pick_columns(where, first_row, columns)
    for column in columns:
        if not 0 <= int(column) < len(first_row):
            raise InputError(f"{where}: no column {column}; the row has the columns 0 to {len(first_row) - 1}")
    return [int(column) for column in columns]


def _read_jsonl(stream: BinaryIO, name: str, columns: Columns | None, longest: int) -> Iterator[Row]:
    keys: list[str] = []
    for number, line in enumerate(_records(stream, name, longest), start=1):
        where = f"{name}, line {number}"
        if not line.strip():
            if keys:
                yield Row(number, (None,) * len(keys))
            continue
        try:
            record = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({error}); expected one object a line") from error
        if not isinstance(record, dict):
            raise InputError(f"{where}: found a JSON {type(record).__name__}; expected one object a line")
        found = list(record)
        if not keys or not record.keys() >= set(keys):
            keys = [found[position] for position in pick_columns(where, found, keys or columns)]
        yield Row(number, tuple(record[key] for key in keys))


def _read_parquet(stream: BinaryIO, name: str, columns: Columns | None, longest: int) -> Iterator[Row]:
    file = pq.ParquetFile(stream)
    found = file.schema_arrow.names
    wanted = [found[position] for position in pick_columns(name, found, columns)]
    number = 0
    for batch in file.iter_batches(batch_size=4096, columns=wanted):
        for cells in zip(*(batch.column(column).to_pylist() for column in wanted), strict=True):
            number += 1
            yield Row(number, cells)


def has_table_ending(name: str) -> bool:
    """Whether a name ends as `TableFile` wants it."""
    compression = infer_compression(name)
    return (name[: name.rindex(".")] if compression else name).lower().endswith(tuple(_READERS))


_READERS: dict[str, Callable[[BinaryIO, str, Columns | None, int], Iterator[Row]]] = {
    ".txt": _read_text,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
