"""SentEval's transfer tasks: classification of sentences and of sentence pairs, in SentEval's own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sentrep.data.sets.labelled import LabelledSet, LabelledTexts
from sentrep.data.sets.senteval import read_lines, senteval_place, tab_rows
from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import expanded

_Rows = list[tuple[str, str, str]]
"""Text, second text or "", label."""


class _Task(NamedTuple):
    """A named task: its files and sizes."""

    folder: str
    files: dict[str, tuple[str, ...]]
    """By split; two files of one split hold its positive and its negative texts."""
    sizes: dict[str, int]
    """Rows of the complete split."""
    read: Callable[[Path, str], _Rows]
    """Reads one file; its second argument is the label, for a file that has none inside."""


def load_transfer(name: str, folder: str | Path) -> LabelledSet:
    """Read one of SentEval's transfer tasks.

    Texts are kept as SentEval has them: blanks between words become one, blank lines are (empty) texts, and MR, CR,
    SUBJ, MPQA have no split of their own. A file that is not UTF-8 is read as Latin-1.

    Args:
        name: one of `TRANSFER_NAMES`.
        folder: the folder that contains ``MR``, ``CR`` and so on.

    Raises:
        InputError: an unknown name, an incomplete task, an unreadable line.
    """
    key = name.lower()
    if key not in _TASKS:
        known = f"{did_you_mean(key, TRANSFER_NAMES) or ';'} known are {', '.join(TRANSFER_NAMES)}"
        raise InputError(f"unknown transfer task {name!r}{known}")
    task = _TASKS[key]
    place = senteval_place(expanded(folder), task.folder, key)
    splits = {}
    for split, files in task.files.items():
        rows = [row for label, file in zip("10", files, strict=False) for row in task.read(place / file, label)]
        if len(rows) != task.sizes[split]:
            expected = f"{task.sizes[split]} are expected; is it complete?"
            raise InputError(f"{place}: {len(rows)} rows of {key} {split} where {expected}")
        texts, second, labels = (list(column) for column in zip(*rows, strict=True))
        splits[split] = LabelledTexts(texts, labels, second if any(second) else None)
    return LabelledSet(key, splits)


def _read_plain(file: Path, label: str) -> _Rows:
    """One text a line, all of one label."""
    return [(_words(line), "", label) for line in read_lines(file, latin_1=True)]


def _read_sst(file: Path, label: str) -> _Rows:
    """Text, tab, label."""
    return [(_words(text), "", label) for _, (text, label) in tab_rows(file, (0, 1), latin_1=True)]


def _read_trec(file: Path, label: str) -> _Rows:
    """``COARSE:fine question``; the coarse class counts."""
    rows = []
    for number, line in enumerate(read_lines(file, latin_1=True), start=1):
        classes, _, question = line.partition(" ")
        coarse, colon, _ = classes.partition(":")
        if not (coarse and colon and question.strip()):
            raise InputError(f"{file}, line {number}: expected a class, a colon, a fine class and a question")
        rows.append((_words(question), "", coarse))
    return rows


def _read_mrpc(file: Path, label: str) -> _Rows:
    """A header; then label, two ids and two sentences."""
    rows = tab_rows(file, (0, 3, 4), header=True, latin_1=True)
    return [(_words(first), _words(second), label) for _, (label, first, second) in rows]


def _words(text: str) -> str:
    return " ".join(text.split())


def _halves(folder: str, first: str, second: str, size: int) -> _Task:
    """A task without a split, in a file of positive and a file of negative texts."""
    return _Task(folder, {"all": (first, second)}, {"all": size}, _read_plain)


_TASKS = {
    "mr": _halves("MR", "rt-polarity.pos", "rt-polarity.neg", 10662),
    "cr": _halves("CR", "custrev.pos", "custrev.neg", 3775),
    "subj": _halves("SUBJ", "subj.objective", "subj.subjective", 10000),
    "mpqa": _halves("MPQA", "mpqa.pos", "mpqa.neg", 10606),
    "sst2": _Task(
        "SST/binary",
        {"train": ("sentiment-train",), "dev": ("sentiment-dev",), "test": ("sentiment-test",)},
        {"train": 67349, "dev": 872, "test": 1821},
        _read_sst,
    ),
    "trec": _Task(
        "TREC", {"train": ("train_5500.label",), "test": ("TREC_10.label",)}, {"train": 5452, "test": 500}, _read_trec
    ),
    "mrpc": _Task(
        "MRPC",
        {"train": ("msr_paraphrase_train.txt",), "test": ("msr_paraphrase_test.txt",)},
        {"train": 4076, "test": 1725},
        _read_mrpc,
    ),
}
TRANSFER_NAMES = tuple(_TASKS)
"""The seven tasks of the papers' transfer tables, in their order."""
