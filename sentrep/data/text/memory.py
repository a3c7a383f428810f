"""Training text that is in memory: texts, pairs, a data set of ``datasets``, a data frame of pandas."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sentrep.data.text.cells import Columns, pick_columns, shown
from sentrep.data.text.fingerprints import hash_columns
from sentrep.data.text.locations import is_address
from sentrep.data.text.tables import Row, has_table_ending
from sentrep.errors import InputError

_PAIR = ("sent0", "sent1", "hard_neg")
_ROWS_AT_ONCE = 1000
EXPECTED = "a file, a list of files, of texts or of pairs, a datasets.Dataset or a pandas DataFrame"


class MemoryTable:
    """Rows of sentences that somebody holds in memory; they are not copied, and must stay as they are.

    Args:
        held: see `in_memory`.
        columns: which columns of a data set or data frame, as for a file.

    Raises:
        InputError: a column is missing; while reading: a row is no pair, or has another length than the first.
    """

    name = "the texts in memory"
    unit = "row"

    def __init__(self, held: Any, columns: Columns | None) -> None:
        names, self._cells = _opened(held)
        self._wanted = [names[position] for position in pick_columns(self.name, names, columns)]
        self._length, self._read = len(held), 0

    @property
    def fraction_read(self) -> float:
        return self._read / max(1, self._length)

    @functools.cached_property
    def _hash(self) -> str:
        return hash_columns(self._cells(self._wanted))

    def fingerprint(self) -> str:
        """Hash of the wanted cells: equal texts have equal ones in every process and run."""
        return self._hash

    stamp = fingerprint

    def rows(self, columns: Columns | None) -> Iterator[Row]:
        for number, cells in enumerate(self._cells(self._wanted), start=1):
            self._read = number
            yield Row(number, cells)


def in_memory(given: Any) -> bool:
    """Whether these are texts, and not the names of files or data sets.

    A list of strings is one of texts where a string in it has a blank, is the name of nothing on the disk, and does not
    end as a table's name does; a list of names may be of files that are missing, which is then said.

    Raises:
        InputError: for a list of both.
    """
    if _is(given, "datasets", "Dataset") or _is(given, "pandas", "DataFrame"):
        return True
    if not isinstance(given, (list, tuple)) or not given:
        return False
    if not all(isinstance(one, str) for one in given):
        return any(isinstance(one, (str, list, tuple)) for one in given)
    if not any(map(_is_text, given)):
        return False
    if files := [one for one in given if " " not in one and has_table_ending(one) and os.path.lexists(one)]:
        raise InputError(f"data.train: {shown(files[0])} is a file among texts; give the files or the texts alone")
    return True


def _is_text(one: str) -> bool:
    names = one.startswith(("/", "./", "../", "~")) or is_address(one) or has_table_ending(one)
    return " " in one.strip() and not names and not os.path.lexists(one)


def _is(given: Any, module: str, name: str) -> bool:
    """Whether it is of a class of a package, which is not imported for this: who has an object has imported it."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(given, kind)


def _opened(held: Any) -> tuple[Sequence[str], Callable[[Sequence[str]], Iterable[tuple[Any, ...]]]]:
    """The names of the columns, and what gives the cells of some of them."""
    if _is(held, "datasets", "Dataset"):
        return held.column_names, functools.partial(_dataset_cells, held)
    if _is(held, "pandas", "DataFrame"):
        return [str(name) for name in held.columns], functools.partial(_frame_cells, held)
    if all(isinstance(one, str) for one in held):
        return ["text"], lambda wanted: zip(held, strict=True)
    first = next(one for one in held if not isinstance(one, str)) if isinstance(held[0], str) else held[0]
    width = len(first) if isinstance(first, (list, tuple)) else 0
    if width not in (2, 3) or isinstance(held[0], str):
        where = "row 1" if width not in (2, 3) else "the rows"
        raise InputError(
            f"{MemoryTable.name}, {where}: {shown(first)}; expected texts alone, or pairs or triples alone"
        )
    return _PAIR[:width], functools.partial(_pair_cells, held, width)


def _dataset_cells(dataset: Any, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for batch in dataset.select_columns(list(wanted)).iter(batch_size=_ROWS_AT_ONCE):
        yield from zip(*(batch[column] for column in wanted), strict=True)


def _frame_cells(frame: Any, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    names = {str(name): name for name in frame.columns}
    columns = (frame[names[name]].astype(object) for name in wanted)
    return zip(*(column.where(column.notna(), None) for column in columns), strict=True)  # NaN is an empty cell


def _pair_cells(rows: Sequence[Any], width: int, wanted: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    places = [_PAIR.index(name) for name in wanted]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, (list, tuple)) or len(row) != width:
            raise InputError(f"{MemoryTable.name}, row {number}: {shown(row)}; expected {width} texts, as in row 1")
        yield tuple(row[place] for place in places)
