"""Training text as a `datasets.Dataset`: rows of one, two or three sentences, from wherever they lie."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import datasets
import fsspec
import pandas
from datasets import Dataset, Features, IterableDataset, Value

from sentrep.data import toy
from sentrep.data.files import (
    COLUMNS,
    ENDINGS,
    TRIPLET,
    cells_of,
    ending_of,
    has_csv_quotes,
    hash_files,
    hash_of,
    quiet_datasets,
    rows_of,
    shown,
    wanted,
)
from sentrep.errors import InputError, did_you_mean, first_line
from sentrep.io.hub import fail_fast
from sentrep.io.paths import check_name, check_plain, expanded, not_there

if TYPE_CHECKING:
    TrainingText: TypeAlias = str | Path | Dataset | pandas.DataFrame | Sequence[Any]
else:  # the types of a configuration
    TrainingText = str | list[str]
"""Where training text comes from: a file, a list of files, of texts or of pairs, a data set, a data frame."""

logger = logging.getLogger("sentrep")

IN_MEMORY = "the texts in memory"
_TEXTS = (Value("string"), Value("large_string"), Value("null"))
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def load(
    train: TrainingText, columns: Sequence[str | int] | None = None, split: str = "train", streaming: bool = False
) -> Dataset | IterableDataset:
    """Load text into the columns ``anchor``, ``positive`` and ``negative``, or the first or first two, of strings.

    Row k of the text is row k of the data set; blank rows stay. A missing cell is None or ``""``. Python's csv module
    reads csv and tsv files: it refuses an open quotation mark, where pandas joins rows, and a row that is longer than
    the header, where pandas shifts or drops cells. The quotation marks of a tsv file are plain text unless all are as
    csv writes them.

    Args:
        train: a file (txt with a sentence a line, csv, tsv, jsonl or parquet, possibly compressed: gz, bz2, xz, zst), a
            glob, an address that fsspec knows, a folder of ``save_to_disk``, the id of a data set on the Hub, ``toy``,
            or a list of files; in memory a data set, a pandas data frame, or a list of sentences, pairs or triples.
            What looks like a path (an ending, a ``*``, a leading ``/``, ``.`` or ``~``) is never looked up on the Hub.
        columns: one, two or three names, or numbers from 0 for a csv or tsv file without a header. None picks the only
            column, or ``sent0, sent1[, hard_neg]``, ``text`` or ``sentence``.
        split: of a data set with several.
        streaming: read the rows while iterating. Otherwise files are copied into an Arrow file in the cache, which is
            found again by a hash of their content.

    Raises:
        InputError: there is no such text, a column is missing, a cell is not text, or a file is damaged. With
            ``streaming`` some of these are raised while reading.

    Examples:
        >>> load([("A dog barks.", "A dog is loud."), ("It rains.", "Rain falls.")])[1]
        {'anchor': 'It rains.', 'positive': 'Rain falls.'}
    """
    text = open_text(train, columns, split, streaming)
    if streaming:
        return text.rows
    if isinstance(text.table, Dataset):
        return text.table
    rows = text.rows
    if next(iter(rows), None) is None:  # `datasets` writes no empty table
        return Dataset.from_dict({name: [] for name in rows.features}, rows.features)
    with quiet_datasets():
        return Dataset.from_generator(lambda: iter(rows), rows.features, fingerprint=text.fingerprint)


class Text(NamedTuple):
    """A text that can be read."""

    rows: IterableDataset
    """Its rows, as `load` gives them when streaming."""
    fingerprint: str
    """Hash of the content and of the columns; for streamed text, of the files' names and sizes and the columns."""
    name: str
    """In messages."""
    files: list[str]
    """The names of the files."""
    table: Dataset | IterableDataset | None
    """The data set; None for files."""


def open_text(
    train: TrainingText, columns: Sequence[str | int] | None = None, split: str = "train", streaming: bool = False
) -> Text:
    """Find a text and open it; see `load`.

    Args:
        train: see `load`.
        columns: see `load`.
        split: see `load`.
        streaming: read a data set of the Hub over the network, and no file in advance for its hash.

    Raises:
        InputError: see `load`.
    """
    names = checked_columns(columns)
    if in_memory(train):
        name, found = IN_MEMORY, _held(train)
    else:
        given = [train] if isinstance(train, (str, Path)) else train
        name, found = ", ".join(map(str, given))[:200], _sources(train, split, streaming)
    if not isinstance(found, list):
        table = _chosen(found, names, name)
        rows = table.to_iterable_dataset() if isinstance(table, Dataset) else table
        return Text(rows, hash_of(_content(table), names), name, [], table)
    width = len(next(cells_of(found[0], names)))
    features = Features({column: Value("string") for column in COLUMNS[:width]})
    rows = IterableDataset.from_generator(rows_of, features, {"files": found, "columns": names, "width": width})
    if quoted := next((file for file in found if ending_of(file)[0] == ".tsv"), None):
        how = "as csv writes them" if has_csv_quotes(quoted) else "as text, for csv would not write them so"
        logger.info("%s: quotation marks are read %s", quoted, how)
    return Text(rows, hash_of(hash_files(found, names_only=streaming), names), name, found, None)


def _sources(train: str | Path | Sequence[str | Path], split: str, streaming: bool) -> Any:
    """The names of the files that a text consists of, none of which is opened, or its data set."""
    if isinstance(train, (str, Path)):
        return _find(str(train), split, streaming)
    found = [_find(str(name), split, streaming) for name in train]
    if not found or not all(isinstance(files, list) for files in found):
        raise InputError(f"data.train: {shown(list(map(str, train)))}; expected a list of one or more files")
    return list(chain.from_iterable(found))


def checked_columns(columns: Sequence[str | int] | None) -> tuple[str, ...]:
    """The names of one to three columns; an empty list for None.

    Raises:
        InputError: there are more, or one is named twice.
    """
    names = tuple(map(str, columns or ()))
    if len(names) > 3 or len(set(names)) < len(names) or columns == []:
        raise InputError(f"columns {list(names)}: expected one to three different ones")
    return names


def in_memory(given: Any) -> bool:
    """Whether these are texts, and not the names of files or data sets.

    A list of strings is one of texts where a string in it has a blank and is not the name of a file.

    Raises:
        InputError: for a list of texts with the name of a file among them.
    """
    if isinstance(given, (str, Path, Dataset, pandas.DataFrame)):
        return isinstance(given, (Dataset, pandas.DataFrame))
    if not all(isinstance(one, str) for one in given):
        return not any(isinstance(one, Path) for one in given)
    if not any(" " in one.strip() and not _is_path(one) for one in given):
        return False
    if files := [one for one in given if " " not in one and _is_path(one) and os.path.lexists(one)]:
        raise InputError(f"data.train: {shown(files[0])} is a file among texts; give the files or the texts alone")
    return True


def from_hub(name: str, split: str, streaming: bool = False) -> Any:
    """A data set of the Hub, or its local copy; streamed, nothing is downloaded.

    Raises:
        InputError: there is no such data set or split, or the Hub cannot be reached.
    """
    fail_fast()
    try:
        return datasets.load_dataset(name, split=split, **({"streaming": True} if streaming else {}))
    except (OSError, ValueError, RuntimeError) as error:
        problem = f"its split {split!r} cannot be downloaded from the Hub ({first_line(error)})"
        raise InputError(f"{name}: no such local file, and {problem}; check the name and the network") from error


def _content(table: Dataset | IterableDataset) -> str:
    if isinstance(table, IterableDataset):
        return f"{table.info.dataset_name} {table.info.version} {table.num_shards}"
    digest = hashlib.blake2b(digest_size=16)
    for part in table.iter(1000):
        digest.update(repr(part).encode())
    return digest.hexdigest()


def _chosen(table: Any, columns: tuple[str, ...], name: str) -> Any:
    """The columns of sentences of a data set or a data frame, under our names."""
    names = wanted(name, table.column_names if not isinstance(table, pandas.DataFrame) else [*table], columns)
    if isinstance(table, pandas.DataFrame):
        table = Dataset.from_pandas(table[list(names)], preserve_index=False)
    held = table.features or {}
    if odd := next((column for column in names if column in held and held[column] not in _TEXTS), None):
        raise InputError(f"{name}: the column {odd!r} holds {held[odd]}, where sentences belong")
    renamed = {column: ours for column, ours in zip(names, COLUMNS, strict=False) if column != ours}
    chosen = table.select_columns(list(names)).rename_columns(renamed)
    features = Features({column: Value("string") for column in COLUMNS[: len(names)]})
    if chosen.features == features:
        return chosen
    with quiet_datasets():
        return chosen.cast(features)


def _held(given: Any) -> Any:
    """Texts in memory as a data set or a data frame."""
    if isinstance(given, pandas.DataFrame):
        return given.rename(columns=str)
    if isinstance(given, Dataset):
        if given.format["type"] == "custom":
            raise InputError(f"{IN_MEMORY}: a transform (set_transform) is not applied; use `map` to make its columns")
        return given.with_format(None)
    width = 0 if isinstance(given[0], str) else len(given[0])
    for number, row in enumerate(given, start=1):
        if not isinstance(row, str) if not width else isinstance(row, str) or len(row) != width:
            raise InputError(f"{IN_MEMORY}, row {number}: {shown(row)}; expected texts, or pairs or triples alone")
    columns = map(list, zip(*given, strict=True)) if width else [list(given)]
    return Dataset.from_dict(dict(zip(TRIPLET if width else ["text"], columns, strict=False)))


def _find(name: str, split: str, streaming: bool) -> list[str] | Dataset | IterableDataset:
    if "://" in name:
        return _matches(name)
    path = name if os.path.lexists(name) else os.path.expanduser(name)
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path) and name.strip():
        return _saved(path, split)
    if os.path.lexists(path):
        check_plain(path)  # which refuses it
    if name == "toy":
        return Dataset.from_dict({"text": toy.sentences()})
    if glob.has_magic(path) and (matches := sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))):
        return matches
    check_name(name, "the text to read (input, data.train)")
    if _is_path(name) or not _HUB_ID.fullmatch(name):
        raise not_there(expanded(name), "file or folder")
    return from_hub(name, split, streaming)


def _is_path(name: str) -> bool:
    known = name.startswith(("/", ".", "~")) or "://" in name or ending_of(name)[0] in ENDINGS
    return known or os.path.lexists(name)


def _matches(address: str) -> list[str]:
    """The files of an address or of a pattern such as ``s3://bucket/part-*.txt``, sorted."""
    fail_fast()
    system, path = fsspec.url_to_fs(address)
    found = sorted(match for match in system.glob(path) if system.isfile(match))
    if not found:
        raise InputError(f"{address}: no such file; check the address")
    return [system.unstrip_protocol(match) for match in found]


def _saved(path: str, split: str) -> Dataset:
    """A folder that ``save_to_disk`` wrote."""
    try:
        loaded = datasets.load_from_disk(path)
    except Exception as error:  # of Arrow and of JSON
        raise InputError(f"{path}: cannot be read ({first_line(error)}); is it damaged or cut off?") from error
    if isinstance(loaded, Dataset):
        return loaded
    if split not in loaded:
        raise InputError(f"{path}: no split {split!r}; found {', '.join(loaded)}{did_you_mean(split, list(loaded))}")
    return loaded[split]
