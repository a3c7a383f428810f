"""Texts with a label each: SentEval's transfer tasks, or any table of text and label."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sentrep.data.text.cells import Columns, label_cell, quoted, text_cell
from sentrep.data.text.corpus import checked_columns
from sentrep.data.text.fingerprints import hash_columns
from sentrep.data.text.tables import TableFile
from sentrep.errors import InputError
from sentrep.io.paths import expanded, not_there

logger = logging.getLogger("sentrep")

_TEXT_COLUMNS = ("text", "sentence")
_LABEL_COLUMNS = ("label", "category", "label_text")
_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


@dataclass
class LabelledTexts:
    """N texts, or N pairs of texts, each with a label: one split of a set."""

    texts: list[str]
    """N texts."""
    labels: list[str]
    """N labels."""
    second: list[str] | None = None
    """N second texts, where pairs are labelled."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class LabelledSet:
    """A set to classify or to cluster, by split."""

    name: str
    splits: dict[str, LabelledTexts]
    """``train`` and ``test``, and ``dev`` if the set has it; ``all`` for a set without splits."""

    @property
    def fingerprint(self) -> str:
        """Hash of the texts and labels of every split."""
        parts = self.splits.items()
        return hash_columns(*(c for name, part in parts for c in ([name], part.texts, part.second or [], part.labels)))


def load_labelled_folder(folder: str | Path, columns: Sequence[str | int] | None = None) -> LabelledSet:
    """A folder with a table ``train`` and a table ``test`` (csv, tsv, jsonl or parquet, compressed or not).

    Args:
        folder: for example ``banking77``, with ``train.csv`` and ``test.csv``; its name is the set's.
        columns: see `load_labelled_file`.

    Raises:
        InputError: a table is missing, or cannot be read as text and label.
    """
    folder = expanded(folder)
    splits = {split: load_labelled_file(find_split(folder, split), columns) for split in ("train", "test")}
    if unseen := set(splits["test"].labels) - set(splits["train"].labels):
        raise InputError(f"{folder}: the label {min(unseen)!r} is in test but never in train; is the right split here?")
    return LabelledSet(folder.resolve().name, splits)


def load_labelled_file(path: str | Path, columns: Sequence[str | int] | None = None) -> LabelledTexts:
    """The rows of one table; rows with a blank text are left out and counted.

    Args:
        path: csv, tsv, jsonl or parquet, see `TableFile`.
        columns: two names, of the text and of the label, or two positions where a csv or tsv file has no header; None
            looks for ``text`` or ``sentence`` with ``label``, ``category`` or ``label_text``.

    Raises:
        InputError: no such file or columns, a row without a label, or fewer than two different labels.
    """
    path = expanded(path)
    table = TableFile(path)
    texts, labels, blank = [], [], 0
    for where, (text, label) in table.rows(_pick(table, columns)):
        text = text_cell(text, where)
        if not text.strip():
            blank += 1
            continue
        if not (label := label_cell(label, where)):
            raise InputError(f"{where}: a text without a label; complete or remove this row")
        texts.append(text)
        labels.append(label)
    if blank:
        logger.warning("%s: %d rows without a text are left out", path, blank)
    if len(set(labels)) < 2:
        raise InputError(f"{path}: {len(labels)} texts with {len(set(labels))} different labels; at least 2 are needed")
    return LabelledTexts(texts, labels)


def find_split(folder: Path, split: str) -> Path:
    """The table of one split in a folder.

    Raises:
        InputError: there is none, or more than one.
    """
    if not folder.is_dir():
        raise not_there(folder, "folder")
    found = sorted(
        file for file in folder.iterdir() if file.name.startswith(f"{split}.") and set(file.suffixes) & set(_ENDINGS)
    )
    if len(found) != 1:
        what = "both " + " and ".join(file.name for file in found) if found else f"no {split}.csv"
        raise InputError(f"{folder}: {what}; expected one table called {split} ({', '.join(_ENDINGS)})")
    return found[0]


def _pick(table: TableFile, columns: Sequence[str | int] | None) -> Columns:
    """The columns of text and label."""
    if columns is not None:
        if len(columns) != 2:
            raise InputError(f"columns {list(columns)}: expected two, of the text and of the label")
        return checked_columns(columns)  # type: ignore[return-value]
    found = table.columns()
    text, label = (next((name for name in names if name in found), None) for names in (_TEXT_COLUMNS, _LABEL_COLUMNS))
    if text is None or label is None:
        raise InputError(
            f"{table.name}: which columns hold text and label? found {quoted(found)}; name them, for example "
            "--columns [title,topic]"
        )
    return [text, label]
