"""Training text as a `datasets.Dataset`: rows of one, two or three sentences, from wherever they lie."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
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
Source: TypeAlias = str | Dataset | IterableDataset | pandas.DataFrame
"""The name of a file, a data set, or a data frame."""

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
            or a list of these; in memory a data set, a pandas data frame, or a list of sentences, pairs or triples.
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
    if all(isinstance(part, Dataset) for part in text.parts):
        return datasets.concatenate_datasets(text.parts)
    rows = text.rows
    if next(iter(rows), None) is None:  # `datasets` writes no empty table
        return Dataset.from_dict({name: [] for name in rows.features}, rows.features)
    with quiet_datasets():
        return Dataset.from_generator(_copied, rows.features, gen_kwargs={"rows": rows}, fingerprint=text.fingerprint)


class Text(NamedTuple):
    """A text that can be read."""

    rows: IterableDataset
    """Its rows, as `load` gives them when streaming."""
    fingerprint: str
    """Hash of the content and of the columns; for streamed text, of the files' names and sizes and the columns."""
    name: str
    """In messages."""
    parts: list[Any]
    """The sources of the rows: data sets, and a stream for files that follow each other."""
    files: list[str]
    """The names of the files."""


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
    given, names = [train] if isinstance(train, (str, Path)) else train, checked_columns(columns)
    name = IN_MEMORY if in_memory(train) else ", ".join(map(str, given))[:200]
    parts, contents, files = list[Any](), list[str](), list[str]()
    for are_files, some in groupby(sources(train, split, streaming), lambda one: isinstance(one, str)):
        group: list[Any] = list(some)
        if are_files:
            width = len(next(cells_of(group[0], names)))
            features = Features({column: Value("string") for column in COLUMNS[:width]})
            kwargs = {"files": group, "columns": names, "width": width}
            parts.append(IterableDataset.from_generator(rows_of, features, kwargs))
            contents.append(hash_files(group, names_only=streaming))
            files += group
            if table := next((file for file in group if ending_of(file)[0] == ".tsv"), None):
                how = "as csv writes them" if has_csv_quotes(table) else "as text, for csv would not write them so"
                logger.info("%s: quotation marks are read %s", table, how)
        else:
            parts += (chosen := [_chosen(one, names) for one in group])
            contents += map(_content, chosen)
    if len(widths := {len(part.column_names) for part in parts}) > 1:
        raise InputError(f"{name}: texts of {min(widths)} and of {max(widths)} columns; name the `columns`")
    rows = [part.to_iterable_dataset() if isinstance(part, Dataset) else part for part in parts]
    content = hashlib.blake2b(repr((contents, names)).encode(), digest_size=16).hexdigest()
    return Text(rows[0] if len(rows) == 1 else datasets.concatenate_datasets(rows), content, name, parts, files)


def sources(train: TrainingText, split: str = "train", streaming: bool = False) -> list[Source]:
    """The files and data sets that a text consists of; no file is opened."""
    if isinstance(train, (str, Path)):
        return _find(str(train), split, streaming)
    if in_memory(train):
        return [_held(train)]
    found = [one for name in train for one in sources(name, split, streaming)]
    if not found:
        raise InputError("no training text: `train` is an empty list; name a file, a data set or toy")
    return found


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
        return not any(isinstance(one, (Path, Dataset, IterableDataset)) for one in given)
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


def _copied(rows: IterableDataset) -> Iterator[dict[str, str]]:
    yield from rows


def _content(table: Dataset | IterableDataset) -> str:
    if isinstance(table, IterableDataset):
        return f"{table.info.dataset_name} {table.info.version} {table.num_shards}"
    digest = hashlib.blake2b(digest_size=16)
    for part in table.iter(1000):
        digest.update(repr(part).encode())
    return digest.hexdigest()


def _chosen(table: Any, columns: tuple[str, ...]) -> Any:
    """The columns of sentences of a data set or a data frame, under our names."""
    names = wanted(IN_MEMORY, table.column_names if not isinstance(table, pandas.DataFrame) else [*table], columns)
    if isinstance(table, pandas.DataFrame):
        with _of_texts():
            table = Dataset.from_pandas(table[list(names)], preserve_index=False)
    held = table.features or {}
    if odd := next((name for name in names if name in held and held[name] not in _TEXTS), None):
        raise InputError(f"{IN_MEMORY}: the column {odd!r} holds {held[odd]}, where sentences belong")
    renamed = {name: one for name, one in zip(names, COLUMNS, strict=False) if name != one}
    chosen = table.select_columns(list(names)).rename_columns(renamed)
    features = Features({name: Value("string") for name in COLUMNS[: len(names)]})
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
    with _of_texts():
        columns = map(list, zip(*given, strict=True)) if width else [list(given)]
        return Dataset.from_dict(dict(zip(TRIPLET if width else ["text"], columns, strict=False)))


@contextmanager
def _of_texts() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:  # of Arrow: cells of several types in one column
        raise InputError(f"{IN_MEMORY}: {first_line(error)[:200]}; expected text in every row") from error


def _find(name: str, split: str, streaming: bool) -> list[Source]:
    if "://" in name:
        return _matches(name)
    path = name if os.path.lexists(name) else os.path.expanduser(name)
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path) and name.strip():
        return [_saved(path, split)]
    if os.path.lexists(path):
        check_plain(path)  # which refuses it
    if name == "toy":
        return [Dataset.from_dict({"text": toy.sentences()})]
    if glob.has_magic(path) and (matches := sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))):
        return list(matches)
    check_name(name, "the text to read (input, data.train)")
    if _is_path(name) or not _HUB_ID.fullmatch(name):
        raise not_there(expanded(name), "file or folder")
    return [from_hub(name, split, streaming)]


def _is_path(name: str) -> bool:
    known = name.startswith(("/", ".", "~")) or "://" in name or ending_of(name)[0] in ENDINGS
    return known or os.path.lexists(name)


def _matches(address: str) -> list[Source]:
    """The files of an address or of a pattern such as ``s3://bucket/part-*.txt``, sorted."""
    fail_fast()
    try:
        system, path = fsspec.url_to_fs(address)
        found = sorted(match for match in system.glob(path) if system.isfile(match))
    except Exception as error:  # every protocol has exceptions of its own
        raise InputError(f"{address}: cannot be reached ({first_line(error)}); check the address") from error
    if not found:
        raise InputError(f"{address}: no such file; check the address")
    return [system.unstrip_protocol(match) for match in found]


def _saved(path: str, split: str) -> Dataset:
    """A folder that ``save_to_disk`` wrote."""
    try:
        loaded = datasets.load_from_disk(path)
    except FileNotFoundError:
        raise InputError(f"{path}: `save_to_disk` did not write this folder; name its files: {path}/*.txt") from None
    except Exception as error:  # of Arrow and of JSON
        raise InputError(f"{path}: cannot be read ({first_line(error)}); is it damaged or cut off?") from error
    if isinstance(loaded, Dataset):
        return loaded
    if split not in loaded:
        raise InputError(f"{path}: no split {split!r}; found {', '.join(loaded)}{did_you_mean(split, list(loaded))}")
    return loaded[split]
