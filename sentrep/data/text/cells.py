"""Cells of tables: choose the columns, and check sentences, numbers and JSON objects."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from sentrep.errors import InputError, did_you_mean

Columns = Sequence[str] | Sequence[int]
"""Names in the header, or positions from 0 in a csv or tsv file without a header."""

TRIPLET = ("sent0", "sent1", "hard_neg")
"""SimCSE's names of the columns of a sentence, its positive and its hard negative, which are read without asking."""
PAIR = TRIPLET[:2]
_USUAL_COLUMNS = (TRIPLET, PAIR, ("text",), ("sentence",))
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = r"\s*\"?\w[\w -]{0,40}\"?\s*"
_SEPARATED = re.compile(rf"{_WORD}([;\t,|]){_WORD}(\1{_WORD})*")


def text_cell(value: Any, where: str) -> str:
    """A cell as a sentence: itself, or ``""`` for an empty cell (None).

    Raises:
        InputError: the cell is not text, or it holds a NUL or half a surrogate pair.
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


def text_rows(rows: Sequence[tuple[Any, ...]], where: str, first: int) -> Sequence[tuple[str, ...]]:
    """Rows of cells as sentences, see `text_cell`; all are looked at together, which is several times faster.

    Args:
        rows: with at least one cell each.
        where: what to call a row in a message, without its number.
        first: the number of the first row.
    """
    cells = list(chain.from_iterable(rows))
    if set(map(type, cells)) == {str}:
        text = "".join(cells)
        if "\0" not in text and (text.isascii() or not _SURROGATE.search(text)):
            return rows
    return [tuple(text_cell(cell, f"{where} {number}") for cell in row) for number, row in enumerate(rows, start=first)]


def number_cell(value: Any, where: str) -> float:
    """A cell as a number, a score, written in plain digits.

    Raises:
        InputError: it is none, or not finite; what Python takes for one as well (``1_0``, True) counts for none.
    """
    digits = str(value).strip()
    number = float(digits) if _NUMBER.fullmatch(digits) else math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: the score {shown(value)} is not a finite number")
    return number


def shown(value: Any) -> str:
    """A value for a message, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def pick_columns(source: str, found: Sequence[str], columns: Columns | None) -> list[int]:
    """Positions of the wanted columns among those found, see `Source.blocks`.

    Raises:
        InputError: a column is missing or occurs twice; or no columns are named, and the usual names are absent or
            the only column has cells that another character separates.
    """
    found = list(found)
    if columns is None and len(found) == 1:
        if cells := _SEPARATED.fullmatch(found[0]):
            raise InputError(
                f"{source}: only one column, {shown(found[0])}; are its cells separated by {cells[1]!r}? A .csv file "
                "has commas between them, a .tsv file tabs; or name the column (`columns`)"
            )
        return [0]
    if columns is None:
        columns = next((names for names in _USUAL_COLUMNS if set(names) <= set(found)), None)
    if columns is None:
        raise InputError(
            f"{source}: which columns hold the sentences? Found {quoted(found)}; name one to three of them "
            "(`columns`), or give positions (0, 1) for a csv or tsv file without a header"
        )
    for column in map(str, columns):
        if column not in found:
            position = "; a position is for a csv or tsv file without a header" if column.isdecimal() else ""
            hint = position or did_you_mean(column, found)
            raise InputError(f"{source}: no column {column!r}; found {quoted(found)}{hint}")
        if found.count(column) > 1:
            raise InputError(f"{source}: the column {column!r} occurs twice; rename or remove one of the two")
    return [found.index(str(column)) for column in columns]


def quoted(names: Sequence[str]) -> str:
    """Names in a message, cut where they are long."""
    return ", ".join(repr(name if len(name) <= 40 else name[:40] + "…") for name in names) or "none"
