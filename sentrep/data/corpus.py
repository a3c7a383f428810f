"""The training text as one stream of rows: files, a saved data set, a data set of the Hub or the embedded toy."""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sentrep.data import toy
from sentrep.data.hub import HUB_FILE, download_hub_file, load_hub_split
from sentrep.data.tables import Columns, Row, TableFile, hash_files, pick_columns, text_cell
from sentrep.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import datasets

_TOY_SENTENCES = 20_000
_TOY_SEED = 0
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


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


class Source(Protocol):
    """One place that rows come from: a file, a data set, the toy."""

    name: str
    unit: str
    """How a place in it is called in a message: line or row."""

    @property
    def fraction_read(self) -> float: ...
    def fingerprint(self) -> str: ...
    def rows(self, columns: Columns | None) -> Iterator[Row]: ...


class Corpus:
    """The rows of one or more sources, checked and counted, streamed in a fixed order.

    Args:
        sources: at least one, see `open_corpus`.
        columns: one name (sentences), two (with positives) or three (with hard negatives); or positions, see
            `TableFile`; None picks the usual names.
    """

    def __init__(self, sources: Sequence[Source], columns: Sequence[str | int] | None = None) -> None:
        self.sources = list(sources)
        self.columns = checked_columns(columns)
        self._current = 0

    @property
    def name(self) -> str:
        """The sources in words."""
        more = len(self.sources) - 1
        return self.sources[0].name + (f" and {more} more" if more else "")

    @property
    def fraction_read(self) -> float:
        """How far the current reading is, in [0, 1]."""
        return (self._current + self.sources[self._current].fraction_read) / len(self.sources)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of the text and the choice of columns, the same wherever the files lie."""
        parts = [source.fingerprint() for source in self.sources]
        return hashlib.blake2b(repr((parts, self.columns)).encode(), digest_size=16).hexdigest()

    def rows(self) -> Iterator[CorpusRow]:
        """All rows, blank ones included.

        Raises:
            InputError: a cell is not text or not UTF-8, or a file has another number of columns than the first.
        """
        number, width = 0, 0
        for index, source in enumerate(self.sources):
            self._current = index
            for line, cells in source.rows(self.columns):
                sentences = tuple(text_cell(cell, f"{source.name}, {source.unit} {line}") for cell in cells)
                width = width or len(sentences)
                if len(sentences) != width:
                    raise InputError(
                        f"{source.name}: {len(sentences)} columns of sentences where {self.sources[0].name} has "
                        f"{width}; name the columns (`columns`)"
                    )
                yield CorpusRow(number, sentences)
                number += 1


def open_corpus(
    train: str | Path | Sequence[str | Path], columns: Sequence[str | int] | None = None, split: str = "train"
) -> Corpus:
    """Find the training text. Nothing is read yet; the network is used for a data set of the Hub only.

    Args:
        train: a file (see `TableFile`), a glob (``wiki/*.txt.gz``), a folder written by ``datasets``'
            ``save_to_disk``, ``toy``, the id of a data set on the Hub or one file of it
            (``hf://datasets/owner/name/file.txt``), or a list of these. What looks like a path (an
            extension, a ``*``, a leading ``/``, ``.`` or ``~``) is never looked up on the Hub.
        columns: see `Corpus`.
        split: which split of a data set.

    Raises:
        InputError: there is no such file, folder or data set, or it cannot be reached.
    """
    specs = [train] if isinstance(train, (str, Path)) else train
    sources = [source for spec in specs for source in _find(str(spec), split)]
    if not sources:
        raise InputError("no training text: `train` is an empty list; name a file, a data set or toy")
    return Corpus(sources, columns)


class DatasetSource:
    """A ``datasets.Dataset`` that lies in Arrow files on the disk."""

    unit = "row"

    def __init__(self, name: str, dataset: datasets.Dataset) -> None:
        self.name = name
        self._dataset = dataset
        self._read = 0

    @property
    def fraction_read(self) -> float:
        return self._read / max(1, len(self._dataset))

    def fingerprint(self) -> str:
        """Hash of the Arrow files."""
        return hash_files("arrow", [file["filename"] for file in self._dataset.cache_files])

    def rows(self, columns: Columns | None) -> Iterator[Row]:
        found = self._dataset.column_names
        wanted = [found[position] for position in pick_columns(self.name, found, columns)]
        self._read = 0
        for batch in self._dataset.select_columns(wanted).iter(batch_size=1000):
            for cells in zip(*(batch[column] for column in wanted), strict=True):
                self._read += 1
                yield Row(self._read, cells)


class ToySource:
    """The sentences that ship with the package (`sentrep.data.toy`)."""

    name = "toy"
    unit = "row"
    fraction_read = 0.0

    def fingerprint(self) -> str:
        text = "\n".join(_toy_sentences())
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def rows(self, columns: Columns | None) -> Iterator[Row]:
        pick_columns(self.name, ["text"], columns)
        for number, sentence in enumerate(_toy_sentences(), start=1):
            yield Row(number, (sentence,))


@functools.cache
def _toy_sentences() -> list[str]:
    return toy.sentences(_TOY_SENTENCES, _TOY_SEED)


def checked_columns(columns: Sequence[str | int] | None) -> Columns | None:
    """The columns as names or as positions, refused where they are neither one to three nor of one kind."""
    if columns is None:
        return None
    if not 1 <= len(columns) <= 3 or isinstance(columns, str):
        raise InputError(
            f"columns {columns!r}: expected a list of one (sentence), two (with positive) or three (with hard negative)"
        )
    names = [str(column) for column in columns]
    positions = [int(name) for name in names if name.isdecimal()]
    if positions and len(positions) != len(names):
        raise InputError(f"columns {names}: names and positions are mixed; give one or the other")
    return positions or names


def _find(spec: str, split: str) -> list[Source]:
    if spec.startswith(HUB_FILE):
        return [TableFile(download_hub_file(spec))]
    path = Path(spec).expanduser()
    if path.is_dir():
        return [_load_folder(path, split)]
    if path.exists():
        return [TableFile(path)]
    if spec == "toy":
        return [ToySource()]
    if matches := sorted(match for match in glob.glob(str(path), recursive=True) if os.path.isfile(match)):
        return [TableFile(match) for match in matches]
    if _looks_local(spec):
        nearby = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"{spec}: no such file or folder{did_you_mean(path.name, nearby)}")
    return [DatasetSource(spec, load_hub_split(spec, split))]


def _looks_local(spec: str) -> bool:
    if spec.startswith(("/", ".", "~")) or glob.has_magic(spec) or not _HUB_ID.fullmatch(spec):
        return True
    try:
        TableFile(spec)
    except InputError:
        return False
    return True


def _load_folder(path: Path, split: str) -> Source:
    import datasets  # a second of import time that only its users should pay

    try:
        loaded = datasets.load_from_disk(str(path))
    except FileNotFoundError:
        raise InputError(
            f"{path}: a folder that `save_to_disk` did not write; name the files in it, for example {path}/*.txt"
        ) from None
    return DatasetSource(str(path), _choose_split(loaded, split, str(path)))


def _choose_split(loaded: datasets.Dataset | datasets.DatasetDict, split: str, name: str) -> datasets.Dataset:
    import datasets

    if isinstance(loaded, datasets.Dataset):
        return loaded
    if split not in loaded:
        raise InputError(f"{name}: no split {split!r}; found {', '.join(loaded)}{did_you_mean(split, list(loaded))}")
    return loaded[split]
