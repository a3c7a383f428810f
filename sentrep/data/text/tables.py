"""Text tables: txt, csv, tsv, jsonl or parquet, compressed or not, here or at an address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

from sentrep.data.text.cells import Columns, pick_columns
from sentrep.data.text.compressed import COMPRESSED, open_files
from sentrep.data.text.fingerprints import hash_files
from sentrep.data.text.formats import FORMATS, Block
from sentrep.data.text.locations import file_system, is_address
from sentrep.errors import InputError, first_line
from sentrep.io.paths import check_plain

T = TypeVar("T")


class Row(NamedTuple):
    """The wanted cells of one row, and what to call it in a message."""

    where: str
    """The table and the number of the row from 1, the header not counted; in a txt file that is the line."""
    cells: tuple[Any, ...]


class Source(ABC):
    """A table of text, read a block of rows at a time."""

    name: str
    """In messages."""
    unit = "row"
    """What its rows are called there."""
    has_positions = False
    """Whether its columns may also be named by their position, where it has no header."""

    @abstractmethod
    def _names(self) -> Iterator[list[str]]:
        """The names of the columns; where rows have names of their own, those in some rows after the other."""

    @abstractmethod
    def _cells(self, columns: Columns) -> Iterator[Block]:
        """The cells of these columns, many rows at a time."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the content; the name and the dates do not enter."""

    def stamp(self) -> str:
        """A stamp of text that is too large to hash."""
        return self.fingerprint()

    def columns(self, wanted: Columns = ()) -> list[str]:
        """The names of its columns; of a jsonl file those in its first rows, or in so many that all wanted are there.

        Raises:
            InputError: the file is empty.
        """
        found = None
        with reading(self.name):
            for names in self._names():
                found = names if found is None else [*found, *(name for name in names if name not in found)]
                if set(wanted) <= set(found):
                    break
        if found is None:
            raise InputError(f"{self.name}: an empty file, no sentences in it; name another one")
        return found

    def blocks(self, columns: Columns | None = None) -> Iterator[Block]:
        """The wanted cells, unchanged, many rows at a time; cells of jsonl or parquet files may be other than text.

        Args:
            columns: to read; None means the only column, or ``sent0, sent1[, hard_neg]``, ``text``, ``sentence``.
        """
        if columns is None or not (self.has_positions and isinstance(columns[0], int)):
            names = self.columns(columns or ())
            columns = [names[place] for place in pick_columns(self.name, names, columns)]
        with reading(self.name):
            yield from self._cells(columns)

    def rows(self, columns: Columns | None = None) -> Iterator[Row]:
        """The rows one by one; ``columns`` as in `blocks`."""
        for number, cells in enumerate(chain.from_iterable(self.blocks(columns)), start=1):
            yield Row(f"{self.name}, {self.unit} {number}", cells)


class TableFile(Source):
    """One file of rows; the format and the compression come from the name, for example ``pairs.tsv.gz``.

    A ``.txt`` file has one sentence a line, in a column called ``text``; a line ends at LF, CR LF or CR and nowhere
    else. A ``.tsv`` file has no quoting; in a ``.csv`` file a quotation mark that opens a cell must be closed. Every
    cell of a csv or tsv file is text: ``007`` and ``NA`` are themselves. A cell that is missing at the end of a row is
    empty, and so is one whose key an object of a jsonl file lacks. Blank lines are rows of a txt file only.

    Args:
        path: or address.

    Raises:
        InputError: no such file, a pipe or a device, a name without a known extension, or while reading: a row with
            more cells than the header, a column that is missing, cells that another character separates, a damaged
            file; with the file and, where the parser knows it, the line.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        if not is_address(path):
            check_plain(path)
        self.format = ending_of(self.name)
        if self.format not in FORMATS:
            raise InputError(
                f"{path}: unknown kind of file; the name must end in {', '.join(FORMATS)}, possibly compressed "
                f"({', '.join(COMPRESSED)})"
            )
        self.unit = "line" if self.format == ".txt" else "row"
        self.has_positions = self.format in (".csv", ".tsv")

    def fingerprint(self) -> str:
        """Hash of the format and the content; the name and the dates do not enter."""
        return hash_files(self.format, [self.name])

    def stamp(self) -> str:
        """The name without its folder and the size, for text that is too large to hash."""
        system, path = file_system(self.name)
        return f"{PurePath(self.name).name} {system.size(path)}"

    def _names(self) -> Iterator[list[str]]:
        return self._read(FORMATS[self.format].names)

    def _cells(self, columns: Columns) -> Iterator[Block]:
        return self._read(FORMATS[self.format].blocks, columns)

    def _read(self, read: Callable[..., Iterator[T]], *wanted: Columns) -> Iterator[T]:
        for file in open_files(self.name):
            yield from read(self.name, file, *wanted)


def ending_of(name: str) -> str:
    """The ending of the format, in small letters, without the ending of a compression.

    Examples:
        >>> ending_of("s3://bucket/Pairs.CSV.gz")
        '.csv'
    """
    path = PurePath(name)
    return (PurePath(path.stem) if path.suffix.lower() in COMPRESSED else path).suffix.lower()


def has_table_ending(name: str) -> bool:
    """Whether a name ends as `TableFile` wants it."""
    return ending_of(name) in FORMATS


@contextmanager
def reading(name: str) -> Iterator[None]:
    """One sentence for whatever Arrow, fsspec and the compressions say of a file that is wrong."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, UnicodeDecodeError):
            raise InputError(
                f"{name}: not valid UTF-8 (byte 0x{error.object[error.start]:02x}: {error.reason}); convert it to UTF-8"
            ) from error
        raise InputError(
            f"{name}: cannot be read ({first_line(error)}); is the file damaged, empty or cut off?"
        ) from error
