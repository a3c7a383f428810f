"""The training text as one stream of rows: files, a saved data set, a data set of the Hub or the embedded toy."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from sentrep.data.text.cells import Columns, text_cell
from sentrep.data.text.fingerprints import hash_of
from sentrep.data.text.lines import LONGEST_LINE, LineLimit
from sentrep.data.text.memory import MemoryTable, in_memory
from sentrep.data.text.text_sources import Source, find_sources
from sentrep.errors import InputError

if TYPE_CHECKING:
    import datasets

    class DataFrame(Protocol):
        """The part of pandas' DataFrame that is read here."""

        columns: Any

        def notna(self) -> Any: ...

    TrainingText: TypeAlias = str | Sequence[str] | Sequence[tuple[str, ...]] | datasets.Dataset | DataFrame
else:  # what a configuration can say; these packages are not imported to say more
    TrainingText = str | list[str]
"""Where training text comes from: a file, a list of files or texts or pairs, a data set, a data frame."""

logger = logging.getLogger("sentrep")


class CorpusRow(NamedTuple):
    """One row of the training text."""

    number: int
    """Row in the corpus from 0, counted over all files, blank rows included."""
    sentences: tuple[str, ...]
    """The sentence, or sentence and positive, or sentence, positive and hard negative; ``""`` for an empty cell."""
    paired: bool = True
    """False where a positive was looked for, none was found, and the sentence stands in, see `PairedCorpus`."""

    @property
    def blank(self) -> bool:
        """Whether a needed sentence is missing."""
        return not all(sentence.strip() for sentence in self.sentences)


class Corpus:
    """The rows of one or more sources, checked and counted, streamed in a fixed order.

    Args:
        sources: at least one, see `open_corpus`.
        columns: one name (sentences), two (with positives) or three (with hard negatives); or positions, see
            `TableFile`; None picks the usual names.
        longest: characters of a sentence; what follows is cut off, and counted in `too_long`.
    """

    def __init__(
        self, sources: Sequence[Source], columns: Sequence[str | int] | None = None, longest: int = LONGEST_LINE
    ) -> None:
        self.sources = list(sources)
        self.columns = checked_columns(columns)
        self.limit = LineLimit(longest)
        self._current = 0
        self._width: tuple[int, str] | None = None

    @property
    def name(self) -> str:
        """The sources in words."""
        more = len(self.sources) - 1
        return self.sources[0].name + (f" and {more} more" if more else "")

    @property
    def fraction_read(self) -> float:
        """How far the current reading is, in [0, 1]."""
        return (self._current + self.sources[self._current].fraction_read) / len(self.sources)

    @property
    def too_long(self) -> int:
        """Sentences that were cut in reading so far."""
        return self.limit.cut

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the text and the choice of columns, the same wherever the files lie."""
        return hash_of([source.fingerprint() for source in self.sources], self.columns, self.limit.longest)

    @functools.cached_property
    def stamp(self) -> str:
        """Hash of names, sizes and the choice of columns: a fingerprint of text that is too large to be read first."""
        return hash_of("stamp", [source.stamp() for source in self.sources], self.columns, self.limit.longest)

    def rows(self) -> Iterator[CorpusRow]:
        """All rows, blank ones included.

        Raises:
            InputError: a cell is not text or not UTF-8, or a file has another number of columns than the first.
        """
        number = 0
        for index in range(len(self.sources)):
            for sentences in self.sentences_of(index):
                yield CorpusRow(number, sentences)
                number += 1

    def sentences_of(self, index: int, skip: int = 0) -> Iterator[tuple[str, ...]]:
        """The sentences of every row of one source behind the first ``skip`` rows; raises as `rows` does."""
        source, self._current = self.sources[index], index
        before = self.too_long
        for line, cells in islice(source.rows(self.columns), skip, None):
            sentences = tuple(self.limit(text_cell(cell, f"{source.name}, {source.unit} {line}")) for cell in cells)
            if self._width is None:
                self._width = len(sentences), source.name
            if len(sentences) != self._width[0]:
                raise InputError(
                    f"{source.name}: {len(sentences)} columns of sentences where {self._width[1]} has "
                    f"{self._width[0]}; name the columns (`columns`)"
                )
            yield sentences
        if self.too_long > before:
            logger.warning(
                "%s: %d sentences have more than %d characters (data.reading.longest_line); their rest is not read",
                *(source.name, self.too_long - before, self.limit.longest),
            )


def open_corpus(
    train: TrainingText | Path | Sequence[Path],
    columns: Sequence[str | int] | None = None,
    split: str = "train",
    streaming: bool = False,
    longest: int = LONGEST_LINE,
) -> Corpus:
    """Find the training text. Nothing is read yet; the network is used for addresses and data sets of the Hub only.

    Args:
        train: a file (see `TableFile`), a glob (``wiki/*.txt.gz``), a folder written by ``datasets``'
            ``save_to_disk``, ``toy``, the id of a data set on the Hub or one file of it
            (``hf://datasets/owner/name/file.txt``), any other address or glob that fsspec reads
            (``s3://bucket/part-*.parquet``), or a list of these. What looks like a path (an
            extension, a ``*``, a leading ``/``, ``.`` or ``~``) is never looked up on the Hub. Or text in memory, see
            `sentrep.data.text.memory.in_memory`.
        columns: see `Corpus`.
        split: which split of a data set.
        streaming: read what is on the Hub from there, instead of downloading it first.
        longest: characters of a sentence, see `Corpus`.

    Raises:
        InputError: there is no such file, folder or data set, or it cannot be reached.
    """
    if in_memory(train):
        return Corpus([MemoryTable(train, checked_columns(columns))], columns, longest)
    named: Any = [train] if isinstance(train, (str, Path)) else train
    sources = [source for spec in named for source in find_sources(str(spec), split, streaming, longest)]
    if not sources:
        raise InputError("no training text: `train` is an empty list; name a file, a data set or toy")
    return Corpus(sources, columns, longest)


def checked_columns(columns: Sequence[str | int] | None) -> Columns | None:
    """The columns as names or as positions, refused where they are neither one to three nor of one kind."""
    if columns is None:
        return None
    if not 1 <= len(columns) <= 3 or isinstance(columns, str):
        raise InputError(
            f"columns {columns!r}: expected a list of one (sentence), two (with positive) or three (with hard negative)"
        )
    names = [str(column) for column in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"columns {names}: {twice[0]} is named twice; a sentence and itself are no pair")
    positions = [int(name) for name in names if name.isdecimal()]
    if positions and len(positions) != len(names):
        raise InputError(f"columns {names}: names and positions are mixed; give one or the other")
    return positions or names
