"""The columns and rows of one opened file: txt, csv, tsv, jsonl or parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from itertools import chain, islice, zip_longest
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import pyarrow.parquet as pq

from sentrep.data.text.cells import Columns, pick_columns, shown
from sentrep.errors import InputError

Block: TypeAlias = list[tuple[Any, ...]]
"""The wanted cells of some rows."""

_ROWS_AT_ONCE = 1000
"""Rows of a csv, tsv or parquet file that are read at once. Of other files, as many rows as hold these characters:"""
_CHARACTERS_AT_ONCE = 1 << 20
_LONGEST_CELL = 100_000_000
"""Characters of a csv cell; the csv module's own limit, 131,072, is too low for documents."""


class Format(NamedTuple):
    """How files of one ending are read."""

    names: Callable[[str, BinaryIO], Iterator[list[str]]]
    """The names of the columns; where rows have names of their own, those in some rows after the other."""
    blocks: Callable[[str, BinaryIO, Columns], Iterator[Block]]
    """The cells of these columns: names, or numbers from 0 where a csv or tsv file has no header."""


def _text(file: BinaryIO, newline: str | None = None) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline=newline)


# --- txt --------------------------------------------------------------------------------------------------------------


def _txt_names(name: str, file: BinaryIO) -> Iterator[list[str]]:
    yield ["text"]


def _txt_blocks(name: str, file: BinaryIO, wanted: Columns) -> Iterator[Block]:
    lines = _text(file)
    while block := lines.readlines(_CHARACTERS_AT_ONCE):
        yield [(line.removesuffix("\n"),) for line in block]


# --- csv and tsv ------------------------------------------------------------------------------------------------------


def _rows(name: str, file: BinaryIO, options: dict[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row that is not blank, with the number of its first line."""
    csv.field_size_limit(_LONGEST_CELL)
    rows, line = csv.reader(_text(file, newline=""), strict=True, **options), 1
    try:
        for cells in rows:
            if cells:
                yield line, cells
            line = rows.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{name}, line {line}: {error}; close the quotation mark, and double those inside of a cell"
        ) from error


def _delimited(**options: Any) -> Format:
    def names(name: str, file: BinaryIO) -> Iterator[list[str]]:
        yield from (header for _, header in islice(_rows(name, file, options), 1))

    def blocks(name: str, file: BinaryIO, wanted: Columns) -> Iterator[Block]:
        rows = _rows(name, file, options)
        line, header = next(rows, (0, []))
        if isinstance(wanted[0], int) and not set(map(str, wanted)) <= set(header):  # a header of numbers is one
            rows, header = chain([(line, header)], rows), list(map(str, range(len(header))))
        places, width = pick_columns(name, header, wanted), len(header)
        while block := list(islice(rows, _ROWS_AT_ONCE)):
            columns = list(zip_longest(*(cells for _, cells in block), fillvalue=""))
            if len(columns) > width:
                line, cells = next(row for row in block if len(row[1]) > width)
                raise InputError(f"{name}, line {line}: {len(cells)} cells, more than the first row has ({width})")
            columns += [("",) * len(block)] * (width - len(columns))
            yield list(zip(*(columns[place] for place in places), strict=True))

    return Format(names, blocks)


# --- jsonl ------------------------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} appears twice")
    return found


_decode_json = json.JSONDecoder(object_pairs_hook=_object).decode


def _jsonl_objects(name: str, file: BinaryIO) -> Iterator[list[dict[str, Any]]]:
    lines, before = _text(file), 0
    while block := lines.readlines(_CHARACTERS_AT_ONCE):
        objects = []
        for number, line in enumerate(block, start=before + 1):
            if line.isspace():
                continue
            try:
                if not isinstance(found := _decode_json(line), dict):
                    raise ValueError(f"found {shown(found)}")
            except ValueError as error:
                what = getattr(error, "msg", error)
                raise InputError(f"{name}, line {number}: no JSON object ({what}); write one a line") from error
            objects.append(found)
        before += len(block)
        if objects:
            yield objects


def _jsonl_names(name: str, file: BinaryIO) -> Iterator[list[str]]:
    for objects in _jsonl_objects(name, file):
        yield list(dict.fromkeys(chain.from_iterable(objects)))


def _jsonl_blocks(name: str, file: BinaryIO, wanted: Columns) -> Iterator[Block]:
    names = list(map(str, wanted))
    for objects in _jsonl_objects(name, file):
        yield [tuple(map(found.get, names)) for found in objects]


# --- parquet ----------------------------------------------------------------------------------------------------------


def _parquet(file: BinaryIO) -> pq.ParquetFile:
    return pq.ParquetFile(file if file.seekable() else io.BytesIO(file.read()))


def _parquet_names(name: str, file: BinaryIO) -> Iterator[list[str]]:
    yield _parquet(file).schema_arrow.names


def _parquet_blocks(name: str, file: BinaryIO, wanted: Columns) -> Iterator[Block]:
    for batch in _parquet(file).iter_batches(_ROWS_AT_ONCE, columns=list(wanted)):
        yield list(zip(*(batch.column(column).to_pylist() for column in wanted), strict=True))


FORMATS = {
    ".txt": Format(_txt_names, _txt_blocks),
    ".csv": _delimited(delimiter=","),
    ".tsv": _delimited(delimiter="\t", quoting=csv.QUOTE_NONE),
    ".jsonl": Format(_jsonl_names, _jsonl_blocks),
    ".parquet": Format(_parquet_names, _parquet_blocks),
}
"""The reader of each file ending. Errors name the file and the line."""
