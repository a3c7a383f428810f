"""The rows of a text file: txt, csv, tsv, jsonl or parquet, compressed or not, here or at an address."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import PurePath
from typing import Any, BinaryIO

import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from datasets.exceptions import DatasetGenerationError

from sentrep.errors import InputError, did_you_mean, first_line

COLUMNS = ("anchor", "positive", "negative")
"""The columns of a loaded text: sentences, and possibly positives, and possibly hard negatives."""
TRIPLET = ("sent0", "sent1", "hard_neg")
"""SimCSE's names of these columns."""
PAIR = TRIPLET[:2]
ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")
_USUAL_COLUMNS = (TRIPLET, PAIR, ("text",), ("sentence",))
_UNPACK: dict[str, Callable[[Any], Any]] = {
    "": lambda file: file,
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_CELL = 1 << 30
"""Characters of a csv cell; the csv module's own limit, 131,072, is too low for documents."""


def rows_of(files: list[str], columns: tuple[str, ...], width: int) -> Iterator[dict[str, str]]:
    """The rows of some files, for `datasets`.

    Args:
        files: their names.
        columns: see `cells_of`.
        width: the number of columns that every file has.

    Raises:
        InputError: a file has another number of columns, a cell is not text, or see `cells_of`.
    """
    for name in files:
        rows = cells_of(name, columns)
        if (found := len(next(rows))) != width:
            raise InputError(f"{name}: {found} columns of sentences, the first file has {width}; name the `columns`")
        for number, cells in enumerate(rows, start=1):
            where = f"{name}, row {number}"
            yield {column: text_cell(cell, where) for column, cell in zip(COLUMNS, cells, strict=False)}


def cells_of(name: str, columns: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """The names of the wanted columns of a file, then their cells in every row, as they are.

    Args:
        name: path or address.
        columns: names, or digits that number the columns of a csv or tsv file without a header; without any, the only
            column, or the columns of usual names.

    Raises:
        InputError: the file is empty, damaged, or of an unknown kind, a column is missing, or a row has too many cells.
    """
    ending, packing = ending_of(name)
    if ending not in ENDINGS or packing not in _UNPACK:
        raise InputError(f"{name}: the name must end in {', '.join(ENDINGS)}, and then{', '.join(_UNPACK)}")
    try:
        options: dict[str, Any] = {"dialect": "excel" if ending == ".csv" else "excel-tab", "strict": True}
        if ending == ".tsv" and not has_csv_quotes(name):
            options["quoting"] = csv.QUOTE_NONE
        with _unpacked(name) as unpacked:
            if ending == ".parquet":
                yield from _parquet(name, unpacked, columns)
            elif ending == ".txt":
                yield wanted(name, ["text"], columns)
                yield from ((line.removesuffix("\n"),) for line in _decoded(unpacked, None))
            elif ending == ".jsonl":
                yield from _objects(name, _decoded(unpacked, None), columns)
            else:
                yield from _delimited(name, csv.reader(_decoded(unpacked, ""), **options), columns)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # of Arrow, fsspec and the compressions
        if isinstance(error, UnicodeDecodeError):
            raise InputError(f"{name}: not valid UTF-8 ({error.reason}); convert it to UTF-8") from error
        raise InputError(f"{name}: cannot be read ({first_line(error)}); is it damaged, empty or cut off?") from error


def sentences_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The sentences of a loaded row; a missing one is ``""``."""
    return tuple(row[name] or "" for name in COLUMNS if name in row)


def is_blank(sentences: Iterable[str]) -> bool:
    """Whether a needed sentence is missing."""
    return not all(map(str.strip, sentences))


def has_csv_quotes(name: str) -> bool:
    """Whether the quotation marks of a tsv file are as csv writes them; otherwise they are plain text."""
    with _unpacked(name) as unpacked:
        try:
            deque(csv.reader(_decoded(unpacked, ""), "excel-tab", strict=True), maxlen=0)  # reads to the end
        except csv.Error:
            return False
    return True


@contextmanager
def _unpacked(name: str) -> Iterator[Any]:
    with opened(name) as file, _UNPACK[ending_of(name)[1]](file) as unpacked:
        yield unpacked


def _decoded(file: Any, newline: str | None) -> io.TextIOWrapper:
    csv.field_size_limit(_LONGEST_CELL)
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline)


def _delimited(name: str, rows: Any, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    line = 1
    try:
        header: list[str] = next(filter(None, rows), [])
        first: list[list[str]] = []
        if columns and all(map(str.isdecimal, columns)) and not set(columns) <= set(header):  # such a header is one
            first, header = [header], list(map(str, range(len(header))))
        names = wanted(name, header, columns)
        yield names
        places, line = list(map(header.index, names)), 1 if first else rows.line_num + 1
        for cells in chain(first, rows):
            if len(cells) > len(header):
                raise InputError(f"{name}, line {line}: {len(cells)} cells, where the first row has {len(header)}")
            if cells:
                yield tuple(cells[place] if place < len(cells) else "" for place in places)
            line = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"{name}, line {line}: {error}; close the quotation mark, double those in a cell") from error


def _objects(name: str, lines: Iterable[str], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    names: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        try:
            if not isinstance(found := json.loads(line), dict):
                raise ValueError(f"found {shown(found)}")
        except ValueError as error:
            raise InputError(f"{name}, line {number}: no JSON object ({error}); write one a line") from error
        if not names:
            names = wanted(name, list(found), columns)
            yield names
        yield tuple(map(found.get, names))
    if not names:
        wanted(name, [], columns)


def _parquet(name: str, file: BinaryIO, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    table = pq.ParquetFile(file)
    names = wanted(name, table.schema_arrow.names, columns)
    yield names
    for batch in table.iter_batches(1000, columns=list(names)):
        yield from zip(*(batch.column(column).to_pylist() for column in names), strict=True)


def wanted(name: str, found: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The wanted columns among those found in a table.

    Args:
        name: of the table.
        found: names of its columns.
        columns: see `cells_of`.

    Raises:
        InputError: a column is missing or occurs twice, or none has a usual name.
    """
    listed = ", ".join(map(shown, found))
    if not found:
        raise InputError(f"{name}: an empty file, no sentences in it; name another one")
    if not columns:
        columns = found if len(found) == 1 else next((some for some in _USUAL_COLUMNS if set(some) <= set(found)), ())
    if not columns:
        raise InputError(f"{name}: which columns hold the sentences? Name them (`columns`); found {listed}")
    for column in columns:
        if column not in found:
            hint = did_you_mean(column, found)
            if list(found) == ["text"]:
                hint = "; for a file of plain sentences set data.columns null"
            raise InputError(f"{name}: no column {column!r}; found {listed}{hint}")
        if found.count(column) > 1:
            raise InputError(f"{name}: the column {column!r} occurs twice; rename or remove one of the two")
    return tuple(columns)


def text_cell(value: Any, where: str) -> str:
    """A cell as a sentence; ``""`` for an empty cell (None).

    Raises:
        InputError: the cell is not text, or it has a NUL or half a surrogate pair in it.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: found {shown(value)} where a sentence was expected; choose another column")
    if "\0" in value:
        raise InputError(f"{where}: a NUL character; is this UTF-16, or no text? Convert the file to UTF-8")
    if not value.isascii() and _SURROGATE.search(value):
        raise InputError(f"{where}: half a surrogate pair, which is no character; write the text in UTF-8")
    return value


def shown(value: Any) -> str:
    """A value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def ending_of(name: str) -> tuple[str, str]:
    """The endings of the format and of the compression, in small letters.

    Examples:
        >>> ending_of("s3://bucket/Pairs.CSV.gz")
        ('.csv', '.gz')
    """
    path = PurePath(name)
    packing = path.suffix.lower() if path.suffix.lower() in _UNPACK else ""
    return (PurePath(path.stem) if packing else path).suffix.lower(), packing


def opened(name: str) -> Any:
    """A file to read, closed at the end of a ``with`` block."""
    return fsspec.open(name, "rb") if "://" in name else open(name, "rb")


def hash_of(*parts: object) -> str:
    """32 hexadecimal digits that follow plain values."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def hash_files(files: Sequence[str], names_only: bool = False) -> str:
    """Hash of the content and the formats of some files, or only of their names without folders, and their sizes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in files:
        digest.update(repr(ending_of(name)).encode())
        with opened(name) as file:
            if names_only:
                digest.update(f"{PurePath(name).name} {file.seek(0, os.SEEK_END)}".encode())
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def quiet_datasets() -> Iterator[None]:
    """Raise the cause of a `DatasetGenerationError`, and show progress bars on a terminal only."""
    bars = datasets.are_progress_bars_disabled()
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        yield
    except DatasetGenerationError as error:
        raise error.__cause__ or error from None
    finally:
        if not bars:
            datasets.enable_progress_bars()
