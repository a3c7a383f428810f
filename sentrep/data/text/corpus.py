"""What ``train`` names as one stream of rows: files, a saved data set, a data set of the Hub or the embedded toy."""

from __future__ import annotations

import functools
import glob
import logging
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sentrep.data.text.cells import Columns, text_rows
from sentrep.data.text.fingerprints import hash_of
from sentrep.data.text.locations import HUB_FILE, download_hub_file, find_files, is_address
from sentrep.data.text.memory import hold_folder, hold_hub, hold_texts, hold_toy, in_memory
from sentrep.data.text.pairing import Positives
from sentrep.data.text.tables import Source, TableFile, has_table_ending
from sentrep.errors import InputError
from sentrep.io.paths import check_name, expanded, not_there

if TYPE_CHECKING:
    import datasets
    import pandas

    TrainingText: TypeAlias = str | Sequence[str] | Sequence[tuple[str, ...]] | datasets.Dataset | pandas.DataFrame
else:  # the types of a configuration; the packages of the others are not imported
    TrainingText = str | list[str]
"""Where training text comes from: a file, a list of files or texts or pairs, a data set, a data frame."""

logger = logging.getLogger("sentrep")

COLUMNS = ("anchor", "positive", "negative")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


class CorpusRow(NamedTuple):
    """One row of the training text."""

    number: int
    """Row in the corpus from 0, counted over all files, blank rows included."""
    sentences: tuple[str, ...]
    """The sentence, or sentence and positive, or sentence, positive and hard negative; ``""`` for an empty cell."""
    paired: bool = True
    """False where a positive was looked for, none was found, and the sentence stands in."""

    @property
    def blank(self) -> bool:
        """Whether a needed sentence is missing."""
        return not all(sentence.strip() for sentence in self.sentences)


class Corpus:
    """The rows of one or more sources, checked and counted, read in a fixed order.

    Args:
        sources: at least one, see `open_corpus`.
        columns: one name (sentences), two (with positives) or three (with hard negatives); or positions, see
            `TableFile`; None picks the usual names. See `checked_columns`.
        pairs: sentences and their positives, for a corpus of sentences, see `Positives`. A row without one is its own.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        columns: Columns | None = None,
        pairs: Corpus | None = None,
    ) -> None:
        self.sources, self.columns, self.pairs = list(sources), columns, pairs
        self._first_read: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """The sources in words."""
        more = len(self.sources) - 1
        pairs = f" with the pairs of {self.pairs.name}" if self.pairs else ""
        return self.sources[0].name + (f" and {more} more" if more else "") + pairs

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the text and the choice of columns, the same wherever the files lie."""
        own = hash_of([source.fingerprint() for source in self.sources], self.columns)
        return hash_of("joined by sentence", own, self.pairs.fingerprint) if self.pairs else own

    @functools.cached_property
    def stamp(self) -> str:
        """Hash of names, sizes and the choice of columns: a fingerprint of text that is too large to be read first."""
        return hash_of("stamp", [source.stamp() for source in self.sources], self.columns)

    @functools.cached_property
    def _positives(self) -> Positives | None:
        return Positives(self.pairs.name, (row.sentences for row in self.pairs.rows())) if self.pairs else None

    def rows(self) -> Iterator[CorpusRow]:
        """All rows one by one, blank ones included; see `blocks`."""
        return chain.from_iterable(self.blocks())

    def blocks(self) -> Iterator[list[CorpusRow]]:
        """All rows, blank ones included, some at a time.

        Raises:
            InputError: a cell is not text or not UTF-8, a column is missing, a source has another number of columns
                than the first, or the positives are in the text as well.
        """
        first = 0
        for source in self.sources:
            for rows in self.blocks_of(source, first):
                first = rows[-1].number + 1
                yield rows

    def blocks_of(self, source: Source, first: int = 0, step: int = 1) -> Iterator[list[CorpusRow]]:
        """The rows of one source, some at a time; row k of it has the number first + k·step. It raises as `blocks`."""
        where = f"{source.name}, {source.unit}"
        read = 0
        for cells in filter(None, source.blocks(self.columns)):
            self._check_width(source, len(cells[0]))
            texts = text_rows(cells, where, read + 1)
            rows = list(map(CorpusRow, count(first + read * step, step), texts))
            read += len(rows)
            yield self._paired(rows) if self._positives else rows

    def _paired(self, rows: list[CorpusRow]) -> list[CorpusRow]:
        assert self._positives is not None
        if len(rows[0].sentences) != 1:
            raise InputError(
                f"data.train: {len(rows[0].sentences)} columns of sentences, but `pairs` gives the positives; name the "
                "one column of the sentences (`columns`), or leave `pairs` out"
            )
        found = self._positives([row.sentences[0] for row in rows])
        return [
            row._replace(
                sentences=(*row.sentences, row.sentences[0] if text is None else text), paired=text is not None
            )
            for row, text in zip(rows, found, strict=True)
        ]

    def _check_width(self, source: Source, width: int) -> None:
        name, wanted = self._first_read = self._first_read or (source.name, width)
        if width != wanted:
            raise InputError(
                f"{source.name}: {width} columns of sentences where {name} has {wanted}; name the columns (`columns`)"
            )


def open_corpus(
    train: TrainingText | Path | Sequence[Path],
    columns: Sequence[str | int] | None = None,
    split: str = "train",
    streaming: bool = False,
    pairs: Corpus | None = None,
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
        streaming: read a data set of the Hub over the network, instead of downloading it first.
        pairs: positives, see `Corpus`.

    Raises:
        InputError: there is no such file, folder or data set, or it cannot be reached.
    """
    columns = checked_columns(columns)
    if in_memory(train):
        return Corpus([hold_texts(train, columns)], columns, pairs)
    named: Any = [train] if isinstance(train, (str, Path)) else train
    sources = [source for spec in named for source in find_sources(str(spec), split, streaming)]
    if not sources:
        raise InputError("no training text: `train` is an empty list; name a file, a data set or toy")
    return Corpus(sources, columns, pairs)


def find_sources(spec: str, split: str = "train", streaming: bool = False) -> list[Source]:
    """What one entry of `open_corpus` names."""
    if spec.startswith(HUB_FILE) and not streaming:
        return [TableFile(download_hub_file(spec))]
    if is_address(spec):
        if not (found := find_files(spec)):
            raise InputError(f"{spec}: no such file; check the address")
        return [TableFile(address) for address in found]
    check_name(spec, "the text to read (input, data.train)")
    path = expanded(spec)
    if os.path.isdir(path):  # where Path.is_dir fails for a name that is too long
        return [hold_folder(path, split)]
    if os.path.lexists(path):
        return [TableFile(path)]
    if spec == "toy":
        return [hold_toy()]
    if glob.has_magic(str(path)) and (matches := find_files(str(path))):
        return [TableFile(match) for match in matches]
    if spec.startswith(("/", ".", "~")) or not _HUB_ID.fullmatch(spec) or has_table_ending(spec):
        raise not_there(path, "file or folder")
    return [*hold_hub(spec, split, streaming)]


def checked_columns(columns: Any, name: str = "columns", least: int = 1, most: int = 3) -> Columns | None:
    """The columns as names, or as positions where all of them are numbers; refused if they are not so many."""
    if columns is None:
        return None
    if not isinstance(columns, (list, tuple)) or not least <= len(columns) <= most:
        what = (
            "one (sentence), two (with positive) or three (with hard negative)" if most > 2 else "sentence and positive"
        )
        raise InputError(f"{name} {columns!r}: expected a list of {what}")
    names = [str(column) for column in columns]
    if twice := [one for one in names if names.count(one) > 1]:
        raise InputError(f"{name} {names}: {twice[0]} is named twice; a sentence and itself are no pair")
    return [int(one) for one in names] if all(map(str.isdecimal, names)) else names
