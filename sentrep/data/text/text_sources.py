"""Where rows come from: a file, a data set on the disk or streamed from the Hub, the embedded toy."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sentrep.data import toy
from sentrep.data.text.cells import Columns, pick_columns
from sentrep.data.text.fingerprints import hash_files
from sentrep.data.text.locations import HUB_FILE, download_hub_file, find_addresses, is_address, load_hub_split
from sentrep.data.text.tables import Row, TableFile
from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import check_name, check_plain, expanded, not_there

if TYPE_CHECKING:
    import datasets

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


class Source(Protocol):
    """One place that rows come from: a file, a data set, the toy."""

    name: str
    unit: str
    """How a place in it is called in a message: line or row."""

    @property
    def fraction_read(self) -> float: ...
    def fingerprint(self) -> str: ...
    def stamp(self) -> str: ...
    def rows(self, columns: Columns | None) -> Iterator[Row]: ...


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

    def stamp(self) -> str:
        """Names and sizes of the Arrow files."""
        paths = [Path(file["filename"]) for file in self._dataset.cache_files]
        return repr([(path.name, path.stat().st_size) for path in paths])

    def rows(self, columns: Columns | None) -> Iterator[Row]:
        for row in _rows(self.name, self._dataset, self._dataset.column_names, columns):
            self._read = row.line
            yield row


class StreamedShard:
    """One shard of a data set that ``datasets`` streams, usually one of its files."""

    unit = "row"
    fraction_read = 0.0

    def __init__(self, name: str, dataset: datasets.IterableDataset) -> None:
        self.name = name
        self._dataset = dataset

    def stamp(self) -> str:
        """The name alone: what is streamed is not read to be hashed."""
        return self.name

    fingerprint = stamp

    def rows(self, columns: Columns | None) -> Iterator[Row]:
        found = self._dataset.column_names or list(next(iter(self._dataset), {}))
        yield from _rows(self.name, self._dataset, found, columns)


def _rows(
    name: str, dataset: datasets.Dataset | datasets.IterableDataset, found: list[str], columns: Columns | None
) -> Iterator[Row]:
    wanted = [found[position] for position in pick_columns(name, found, columns)]
    batches = dataset.select_columns(wanted).iter(batch_size=1000)
    cells = (row for batch in batches for row in zip(*(batch[column] for column in wanted), strict=True))
    yield from map(Row, count(1), cells)


class ToySource:
    """The sentences that ship with the package (`sentrep.data.toy`)."""

    name = "toy"
    unit = "row"
    fraction_read = 0.0

    def fingerprint(self) -> str:
        text = "\n".join(toy.sentences())
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    stamp = fingerprint

    def rows(self, columns: Columns | None) -> Iterator[Row]:
        pick_columns(self.name, ["text"], columns)
        for number, sentence in enumerate(toy.sentences(), start=1):
            yield Row(number, (sentence,))


def find_sources(spec: str, split: str, streaming: bool, longest: int) -> list[Source]:
    """What one entry of `open_corpus` names."""
    if spec.startswith(HUB_FILE) and not streaming:
        return [TableFile(download_hub_file(spec), longest)]
    if is_address(spec):
        return [TableFile(address, longest) for address in find_addresses(spec)]
    check_name(spec, "the text to read (input, data.train)")
    path = expanded(spec)
    if os.path.isdir(path):  # where Path.is_dir fails for a name that is too long
        return [_load_folder(path, split)]
    if os.path.lexists(path):
        check_plain(path)
        return [TableFile(path, longest)]
    if spec == "toy":
        return [ToySource()]
    if matches := sorted(match for match in glob.glob(str(path), recursive=True) if os.path.isfile(match)):
        return [TableFile(match, longest) for match in matches]
    if _looks_local(spec):
        raise not_there(path, "file or folder")
    if streaming:
        return _stream(spec, split)
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
    except Exception as error:  # of datasets, arrow and JSON, for files that are damaged
        raise InputError(f"{path}: this saved data set is damaged ({str(error)[:150]}); save it again") from error
    if isinstance(loaded, datasets.Dataset):
        return DatasetSource(str(path), loaded)
    if split not in loaded:
        raise InputError(f"{path}: no split {split!r}; found {', '.join(loaded)}{did_you_mean(split, list(loaded))}")
    return DatasetSource(str(path), loaded[split])


def _stream(name: str, split: str) -> list[Source]:
    dataset = load_hub_split(name, split, streaming=True)
    shards = dataset.num_shards
    return [StreamedShard(f"{name}, shard {i} of {shards}", dataset.shard(shards, i)) for i in range(shards)]
