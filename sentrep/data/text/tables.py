"""Text tables, read by ``datasets``: txt, csv, tsv, jsonl or parquet, compressed or not, here or at an address."""

from __future__ import annotations

import glob
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pandas

from sentrep.data.text.cells import Columns, check_delimiter, pick_columns
from sentrep.data.text.fingerprints import hash_files
from sentrep.data.text.locations import file_system, is_address
from sentrep.errors import InputError
from sentrep.io.paths import check_plain

if TYPE_CHECKING:
    import datasets

    AnyDataset: TypeAlias = datasets.Dataset | datasets.IterableDataset

_LOADERS = {".txt": "text", ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".parquet": "parquet"}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
_ROWS_AT_ONCE = 1000
_DELIMITED: dict[str, dict[str, Any]] = {".csv": {"sep": ","}, ".tsv": {"sep": "\t", "quoting": 3}}
"""How pandas reads them; 3: a quotation mark in a tsv file is one."""
_AS_TEXT: dict[str, Any] = {"keep_default_na": False, "encoding": "utf-8-sig"}


class Row(NamedTuple):
    """The wanted cells of one row, and what to call it in a message."""

    where: str
    """The table and the number of the row from 1, the header not counted; in a txt file that is the line."""
    cells: tuple[Any, ...]


class Table(NamedTuple):
    """An opened table."""

    dataset: AnyDataset
    wanted: list[str]
    """Its columns that were asked for, in that order."""


class Source(ABC):
    """A table of text that ``datasets`` opens."""

    name: str
    """In messages."""
    unit = "row"
    """What its rows are called there."""

    @abstractmethod
    def _load(self, columns: Columns | None, cache_dir: str | Path | None) -> tuple[AnyDataset, list[str]]:
        """The data set, and what its columns are called in the file, in their order."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the content; the name and the dates do not enter."""

    def stamp(self) -> str:
        """What stands for the content of text that is too large to hash."""
        return self.fingerprint()

    def open(self, columns: Columns | None = None, cache_dir: str | Path | None = None) -> Table:
        """The table, to be read through once; or, with a folder for it, in Arrow files there.

        Args:
            columns: what to read; None means the only column, or ``sent0, sent1[, hard_neg]``, ``text``, ``sentence``.
            cache_dir: an existing folder.
        """
        dataset, names = self._load(columns, cache_dir)
        keys = dataset.column_names or names
        return Table(dataset, [keys[place] for place in pick_columns(self.name, names, columns)])

    def columns(self) -> list[str]:
        """The names of its columns."""
        return self._load(None, None)[1]

    def rows(self, columns: Columns | None = None) -> Iterator[Row]:
        """The rows, a few at a time; ``columns`` as in `open`."""
        for number, cells in enumerate(chain.from_iterable(batches_of(self.name, self.open(columns))), start=1):
            yield Row(f"{self.name}, {self.unit} {number}", cells)


class TableFile(Source):
    """One file of rows; the format and the compression come from the name, for example ``pairs.tsv.gz``.

    A ``.txt`` file has one sentence a line, in a column called ``text``; a line ends at LF, CR LF or CR and nowhere
    else. A ``.tsv`` file has no quoting. Every cell of a csv or tsv file is text: ``007`` and ``NA`` are themselves. A
    cell that is missing at the end of a row is empty. Blank lines are rows of a txt file only.

    Args:
        path: or address.

    Raises:
        InputError: the name has no known extension, or while reading: a pipe or a device, a row with more cells than
            the header, a column that is missing, cells that another character separates, a damaged file; with the file
            and, where the parser knows it, the line.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        self.format = ending_of(self.name)
        if self.format not in _LOADERS:
            raise InputError(
                f"{path}: unknown kind of file; the name must end in {', '.join(_LOADERS)}, possibly compressed "
                f"({', '.join(_COMPRESSED)})"
            )
        self.unit = "line" if self.format == ".txt" else "row"

    def fingerprint(self) -> str:
        """Hash of the format and the content; the name and the dates do not enter."""
        return hash_files(self.format, [self.name])

    def stamp(self) -> str:
        """The name without its folder and the size, for text that is too large to hash."""
        system, path = file_system(self.name)
        return f"{PurePath(self.name).name} {system.size(path)}"

    def _load(self, columns: Columns | None, cache_dir: str | Path | None) -> tuple[AnyDataset, list[str]]:
        import datasets  # half a second of import time that only its users should pay

        if not is_address(self.name):
            check_plain(self.name)
        names, options = list[str](), dict[str, Any]()
        with reading(self.name), quiet():
            if self.format in _DELIMITED:
                names, options = self._header(columns)
            elif self.format == ".txt":
                options = {"encoding": "utf-8-sig", "features": _of_text(["text"])}
            where: dict[str, Any] = {"streaming": True} if cache_dir is None else {"cache_dir": str(cache_dir)}
            dataset = datasets.load_dataset(
                _LOADERS[self.format], data_files=[glob.escape(self.name)], split="train", **where, **options
            )
            return dataset, names or column_names(dataset)

    def _header(self, columns: Columns | None) -> tuple[list[str], dict[str, Any]]:
        """Names of the columns, and options that give every column its position as a name and text as its type."""
        options = {**_DELIMITED[self.format], **_AS_TEXT}
        first = pandas.read_csv(self.name, header=None, nrows=1, dtype=str, **options).iloc[0].tolist()
        keys = list(map(str, range(len(first))))
        # index_col: else pandas takes the first cells for an index where a row has one more than the header
        options |= {"names": keys, "index_col": False, "header": 0, "features": _of_text(keys)}
        if columns is not None and all(isinstance(column, int) for column in columns):
            return keys, options | {"header": None}
        if columns is None or columns[0] != first[0]:
            check_delimiter(self.name, first, options["sep"])
        return first, options


def column_names(dataset: AnyDataset) -> list[str]:
    """The names of a data set's columns; where ``datasets`` does not know them yet, those of the first row."""
    return dataset.column_names or list(next(iter(dataset), {}))


def _of_text(names: Sequence[str]) -> datasets.Features:
    import datasets

    return datasets.Features({name: datasets.Value("string") for name in names})


def ending_of(name: str) -> str:
    """The ending that says the format, in small letters, without that of a compression.

    Examples:
        >>> ending_of("s3://bucket/Pairs.CSV.gz")
        '.csv'
    """
    path = PurePath(name)
    return (PurePath(path.stem) if path.suffix.lower() in _COMPRESSED else path).suffix.lower()


def has_table_ending(name: str) -> bool:
    """Whether a name ends as `TableFile` wants it."""
    return ending_of(name) in _LOADERS


def batches_of(name: str, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """The wanted cells of the rows, many rows at a time.

    Raises:
        InputError: something in it cannot be read.
    """
    batches = iter(table.dataset.select_columns(table.wanted).iter(_ROWS_AT_ONCE))
    while True:
        with reading(name):
            if (batch := next(batches, None)) is None:
                return
        yield list(zip(*(batch[column] for column in table.wanted), strict=True))


@contextmanager
def reading(name: str) -> Iterator[None]:
    """One sentence for whatever datasets, pandas, Arrow, fsspec and the compressions say of a file that is wrong."""
    import datasets

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # cells that have no header are lost
            yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        cause = error
        while isinstance(cause, datasets.exceptions.DatasetGenerationError) and isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        if isinstance(cause, UnicodeDecodeError):
            raise InputError(
                f"{name}: not valid UTF-8 (byte 0x{cause.object[cause.start]:02x}: {cause.reason}); convert it to UTF-8"
            ) from error
        said = str(cause).strip().split("\n")[0][:300] or type(cause).__name__
        if isinstance(cause, pandas.errors.EmptyDataError) or "corresponds to no data" in said:  # of datasets
            raise InputError(f"{name}: an empty file, no sentences in it; name another one") from error
        if isinstance(cause, pandas.errors.ParserWarning):
            said = "a row has more cells than the header"
        raise InputError(f"{name}: cannot be read ({said}); is the file damaged, empty or cut off?") from error


@contextmanager
def quiet(bars: bool = False) -> Iterator[None]:
    """No log lines of ``datasets``, whose errors say as much, and no progress bars but where they are wanted."""
    import datasets

    verbosity, had_bars = datasets.logging.get_verbosity(), not datasets.are_progress_bars_disabled()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    (datasets.enable_progress_bars if bars and had_bars else datasets.disable_progress_bars)()
    try:
        yield
    finally:
        datasets.logging.set_verbosity(verbosity)
        if had_bars:
            datasets.enable_progress_bars()
