"""Evaluation sentences that stand in the training text, exactly or nearly, and lines that the training text repeats."""

from __future__ import annotations

import csv
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sentrep.data.sets.evaluation_texts import EvaluationTexts
from sentrep.data.sets.near_duplicates import NearIndex
from sentrep.data.text.corpus import Corpus, CorpusRow
from sentrep.errors import InputError
from sentrep.io.files import atomic_write
from sentrep.io.paths import unwritable
from sentrep.reports.text import csv_text

BATCH = 2000
"""Rows looked up at a time."""
_LIST_COLUMNS = ("set", "kind", "jaccard", "evaluation sentence", "training sentence", "training row")


class Overlap(NamedTuple):
    """An evaluation sentence and a training sentence that are the same, or nearly."""

    sets: tuple[str, ...]
    """Every evaluation set that the sentence is in."""
    kind: str
    """``exact`` or ``near``."""
    jaccard: float
    """Jaccard similarity of the two sentences' character trigrams, in (0, 1]."""
    evaluation: str
    """As the evaluation set has it."""
    training: str
    """As the training text has it."""
    row: int
    """Row of the training text, from 1, blank rows included."""


@dataclass(frozen=True)
class SetLeakage:
    """What of one evaluation set is in the training text."""

    name: str
    sentences: int
    """Distinct sentences (after `normalise`)."""
    exact: int
    """How many of these are in the training text."""
    near: int
    """How many of the others have a training sentence at or above the threshold."""

    @property
    def share(self) -> float:
        """(exact + near) / sentences, in [0, 1]."""
        return (self.exact + self.near) / self.sentences


@dataclass(frozen=True)
class Leakage:
    """The result of `check_leakage`."""

    train: str
    """The training text in words."""
    sentences: int
    """Training sentences that are not blank."""
    repeated: int
    """How many of them repeat an earlier one (after `normalise`)."""
    threshold: float
    sets: list[SetLeakage]


def normalise(text: str) -> str:
    """The form in which sentences are compared: Unicode NFKC, case folded, white space collapsed.

    Examples:
        >>> normalise("  The\\u00a0ﬁrst\\tLINE ")
        'the first line'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def check_leakage(
    corpus: Corpus,
    sets: Sequence[EvaluationTexts],
    threshold: float = 0.8,
    *,
    found: Callable[[Overlap], None] | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> Leakage:
    """Look for evaluation sentences in a training text, which is streamed.

    In memory are the evaluation sentences and eight bytes per training sentence. Two training sentences with the same
    64-bit hash count as one (chance below 1e-7 for a million sentences).

    Args:
        corpus: the training text; of a row with pairs every sentence counts.
        sets: at least one; blank texts are left out.
        threshold: least Jaccard similarity of near sentences, see `NearIndex`.
        found: called with every overlap.
        progress: called after every batch with the share of the text that is read and the sentences so far.

    Raises:
        InputError: no sets, a set without text, no training text, or a threshold out of range.
    """
    index = _Index(sets, threshold)
    hashes = array("q")
    rows = corpus.rows()
    while batch := list(islice(rows, BATCH)):
        lines = [(row, text) for row in batch for text in row.sentences if text and not text.isspace()]
        texts = [normalise(text) for _, text in lines]
        hashes.extend(map(hash, texts))
        for overlap in index.overlaps(lines, texts):
            if found is not None:
                found(overlap)
        if progress is not None:
            progress(corpus.fraction_read, len(hashes))
    if not hashes:
        raise InputError(f"{corpus.name}: no sentences in it; name the training text (train)")
    repeated = len(hashes) - len(np.unique(np.frombuffer(hashes, dtype=np.int64)))
    return Leakage(corpus.name, len(hashes), repeated, threshold, index.counts())


class _Index:
    """All evaluation sentences, and which of them were met so far."""

    def __init__(self, sets: Sequence[EvaluationTexts], threshold: float) -> None:
        names = [texts.name for texts in sets]
        if not sets or len(set(names)) < len(names):
            raise InputError(f"evaluation sets {names}: at least one is needed, and each of another name")
        self._originals: dict[str, str] = {}
        members: dict[str, list[str]] = {}
        self._sets: dict[str, set[str]] = {}
        for texts in sets:
            own = {normalise(text): text for text in texts.texts}
            own.pop("", None)
            if not own:
                raise InputError(f"{texts.name}: no text in it to look for")
            for sentence, original in own.items():
                self._originals.setdefault(sentence, original)
                members.setdefault(sentence, []).append(texts.name)
            self._sets[texts.name] = set(own)
        self._members = {sentence: tuple(where) for sentence, where in members.items()}
        self._near_index = NearIndex(list(members), threshold)
        self._exact: set[str] = set()
        self._near: set[str] = set()

    def overlaps(self, lines: Sequence[tuple[CorpusRow, str]], texts: Sequence[str]) -> Iterator[Overlap]:
        """Yields what is found of training sentences, given as row and original, and as normal form."""
        for text, (row, original) in zip(texts, lines, strict=True):
            if text in self._members:
                self._exact.add(text)
                yield self._overlap("exact", 1.0, text, original, row)
        for position, sentence, jaccard in self._near_index.near(texts):
            row, original = lines[position]
            self._near.add(sentence)
            yield self._overlap("near", jaccard, sentence, original, row)

    def counts(self) -> list[SetLeakage]:
        near = self._near - self._exact
        return [SetLeakage(name, len(own), len(own & self._exact), len(own & near)) for name, own in self._sets.items()]

    def _overlap(self, kind: str, jaccard: float, sentence: str, training: str, row: CorpusRow) -> Overlap:
        return Overlap(
            self._members[sentence], kind, jaccard, self._originals[sentence], training.strip(), row.number + 1
        )


@contextmanager
def overlap_list(path: Path) -> Iterator[Callable[[Overlap], None]]:
    """Write overlaps to a csv file as they are found; it takes its name when all are in it.

    A cell that a spreadsheet would take for a formula is led by an apostrophe.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with atomic_write(path, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(_LIST_COLUMNS)
            yield lambda overlap: writer.writerows(_cells(overlap))
    except OSError as error:
        raise InputError(unwritable(path, error)) from error


def _cells(overlap: Overlap) -> Iterable[tuple[str, ...]]:
    texts = csv_text(overlap.evaluation), csv_text(overlap.training)
    found = overlap.kind, f"{overlap.jaccard:.4f}", *texts, str(overlap.row)
    return ((csv_text(name), *found) for name in overlap.sets)
