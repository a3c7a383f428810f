"""Data sets that are not files: texts that a program holds, a saved folder, a data set of the Hub, the toy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas
import pyarrow as pa

from sentrep.data import toy
from sentrep.data.text.cells import TRIPLET, Columns, pick_columns, shown
from sentrep.data.text.fingerprints import hash_columns, hash_files, hash_of
from sentrep.data.text.formats import Block
from sentrep.data.text.locations import is_address
from sentrep.data.text.tables import Source, has_table_ending, reading
from sentrep.errors import InputError, did_you_mean, first_line
from sentrep.io.hub import fail_fast

if TYPE_CHECKING:
    import datasets

    AnyTable: TypeAlias = pa.Table | datasets.Dataset | datasets.IterableDataset

IN_MEMORY = "the texts in memory"
EXPECTED = "a file, a list of files, of texts or of pairs, a datasets.Dataset or a pandas DataFrame"
_ROWS_AT_ONCE = 1000


class HeldTable(Source):
    """A table of Arrow or of ``datasets``.

    Args:
        name: in messages.
        table: the rows.
        digest: gives its fingerprint.
    """

    def __init__(self, name: str, table: AnyTable, digest: Callable[[], str]) -> None:
        self.name, self._table, self._digest = name, table, digest

    def fingerprint(self) -> str:
        """The hash of the sentences or the Arrow files; of the name, if the data set is streamed from the Hub."""
        return self._digest()

    def _names(self) -> Iterator[list[str]]:
        yield self._table.column_names or list(next(iter(self._table), {}))  # as a stream of the Hub may not know them

    def _cells(self, columns: Columns) -> Iterator[Block]:
        names = list(map(str, columns))
        if isinstance(self._table, pa.Table):
            parts: Iterable[Any] = self._table.select(names).to_batches(_ROWS_AT_ONCE)
        else:
            parts = self._table.select_columns(names).with_format("arrow").iter(_ROWS_AT_ONCE)
        for part in parts:
            yield list(zip(*(part[name].to_pylist() for name in names), strict=True))


def hold_toy() -> HeldTable:
    """The sentences that ship with the package (`sentrep.data.toy`)."""
    sentences = toy.sentences()
    return HeldTable("toy", pa.table({"text": sentences}), lambda: hash_of(sentences))


def hold_folder(path: Path, split: str) -> HeldTable:
    """A folder that ``save_to_disk`` wrote.

    Raises:
        InputError: it did not, the data set is damaged, or has no such split.
    """
    import datasets  # half a second of import time that only its users should pay

    with reading(str(path)):
        try:
            loaded = datasets.load_from_disk(str(path))
        except FileNotFoundError:
            raise InputError(
                f"{path}: a folder that `save_to_disk` did not write; name the files in it, for example {path}/*.txt"
            ) from None
    if not isinstance(loaded, datasets.Dataset):
        if split not in loaded:
            names = ", ".join(loaded)
            raise InputError(f"{path}: no split {split!r}; found {names}{did_you_mean(split, list(loaded))}")
        loaded = loaded[split]
    return _in_arrow_files(str(path), loaded)


def hold_hub(name: str, split: str, streaming: bool = False) -> list[HeldTable]:
    """A data set of the Hub, or its local copy; streamed, nothing is downloaded, and each shard is a table.

    Raises:
        InputError: there is no such data set or split, or the Hub cannot be reached.
    """
    import datasets

    fail_fast()
    try:
        dataset = datasets.load_dataset(name, split=split, **({"streaming": True} if streaming else {}))
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name}: no such local file, and the data set (split {split!r}) cannot be downloaded from the Hub "
            f"({first_line(error)}); check the name and the network, or download it and give the path"
        ) from error
    if not streaming:
        return [_in_arrow_files(name, dataset)]
    count = dataset.num_shards
    names = [f"{name}, shard {shard + 1} of {count}" for shard in range(count)] if count > 1 else [name]
    return [HeldTable(one, dataset.shard(count, shard), partial(str, one)) for shard, one in enumerate(names)]


def hold_texts(held: Any, columns: Columns | None) -> HeldTable:
    """A table of texts in memory, see `in_memory`; the caller must not change the texts.

    Raises:
        InputError: a row is not a text, or not a pair like the first row.
    """
    table = HeldTable(IN_MEMORY, _table(held, columns), lambda: hash_columns(row.cells for row in table.rows(columns)))
    return table


def in_memory(given: Any) -> bool:
    """Whether these are texts, and not the names of files or data sets.

    A list of strings is one of texts where a string in it has a blank, is the name of nothing on the disk, and does not
    end as a table's name does; a list of names may be of files that are missing, which is then said.

    Raises:
        InputError: for a list of both.
    """
    if _is_dataset(given) or isinstance(given, pandas.DataFrame):
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


def _is_dataset(given: Any) -> bool:
    """Whether it is one; the package is not imported for this: who has a data set has imported it."""
    return "datasets" in sys.modules and isinstance(given, sys.modules["datasets"].Dataset)


def _table(held: Any, columns: Columns | None) -> AnyTable:
    if _is_dataset(held):
        return held
    try:
        if isinstance(held, pandas.DataFrame):
            places = pick_columns(IN_MEMORY, list(map(str, held.columns)), columns)
            return pa.Table.from_pandas(held.iloc[:, places], preserve_index=False)
        texts = isinstance(held[0], str)
        width = len(held[0]) if isinstance(held[0], (list, tuple)) else 0
        for number, row in enumerate(held, start=1):
            alike = isinstance(row, str) if texts else isinstance(row, (list, tuple)) and len(row) == width in (2, 3)
            if not alike:
                raise InputError(
                    f"{IN_MEMORY}, row {number}: {shown(row)}; expected texts alone, or pairs or triples alone"
                )
        if texts:
            return pa.table({"text": list(held)})
        return pa.table(list(map(list, zip(*held, strict=True))), TRIPLET[:width])
    except InputError:
        raise
    except (TypeError, ValueError) as error:  # of Arrow: cells of several types in one column
        raise InputError(f"{IN_MEMORY}: {str(error)[:200]}; expected text in every row") from error


def _in_arrow_files(name: str, dataset: datasets.Dataset) -> HeldTable:
    paths = [file["filename"] for file in dataset.cache_files]
    return HeldTable(name, dataset, lambda: hash_files("arrow", paths))
