"""Evaluation sentences that stand in the training text, exactly or nearly, and lines that the training text repeats."""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sentrep.data.sets.evaluation_texts import EvaluationTexts
from sentrep.data.sets.near_duplicates import NearIndex
from sentrep.data.text.corpus import Corpus
from sentrep.errors import InputError
from sentrep.io.chunks import chunks_of

BATCH = 2000
"""Rows looked up at a time."""


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
    """The sentences of one evaluation set that are in the training text."""

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
    progress: Callable[[int], None] | None = None,
) -> Leakage:
    """Look for evaluation sentences in a training text, which is streamed.

    In memory are the evaluation sentences and eight bytes per training sentence. Two training sentences with the same
    64-bit hash count as one (chance below 1e-7 for a million sentences).

    Args:
        corpus: the training text; of a row with pairs every sentence counts.
        sets: at least one; blank texts are left out.
        threshold: least Jaccard similarity of near sentences, see `NearIndex`.
        found: called with every overlap.
        progress: called after every batch with the number of sentences so far.

    Raises:
        InputError: no sets, a set without text, no training text, or a threshold out of range.
    """
    own = _sentences(sets)
    originals = {sentence: original for texts in reversed(own.values()) for sentence, original in texts.items()}
    index = NearIndex(list(originals), threshold)
    met: dict[str, set[str]] = {"exact": set(), "near": set()}
    hashes = array("q")
    for batch in chunks_of(corpus.rows(), BATCH):
        lines = [(row, text) for row in batch for text in row.sentences if text and not text.isspace()]
        texts = [normalise(text) for _, text in lines]
        hashes.extend(map(hash, texts))
        equal = ((place, text, 1.0) for place, text in enumerate(texts) if text in originals)
        for kind, overlaps in (("exact", equal), ("near", index.near(texts))):
            for place, sentence, similarity in overlaps:
                met[kind].add(sentence)
                if found is not None:
                    where = tuple(name for name, members in own.items() if sentence in members)
                    row, training = lines[place]
                    found(Overlap(where, kind, similarity, originals[sentence], training.strip(), row.number + 1))
        if progress is not None:
            progress(len(hashes))
    if not hashes:
        raise InputError(f"{corpus.name}: no sentences in it; name the training text (train)")
    repeated = len(hashes) - len(np.unique(np.frombuffer(hashes, dtype=np.int64)))
    exact, near = met["exact"], met["near"] - met["exact"]
    counts = [
        SetLeakage(name, len(members), len(members.keys() & exact), len(members.keys() & near))
        for name, members in own.items()
    ]
    return Leakage(corpus.name, len(hashes), repeated, threshold, counts)


def _sentences(sets: Sequence[EvaluationTexts]) -> dict[str, dict[str, str]]:
    """By set: every sentence, by its normal form."""
    names = [texts.name for texts in sets]
    if not sets or len(set(names)) < len(names):
        raise InputError(f"evaluation sets {names}: at least one is needed, and each of another name")
    found = {part.name: {normal: text for text in part.texts if (normal := normalise(text))} for part in sets}
    if blank := [name for name in names if not found[name]]:
        raise InputError(f"{blank[0]}: no text in it to look for")
    return found
