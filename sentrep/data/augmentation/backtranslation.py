"""Back-translation: a sentence into another language and back is a paraphrase of it (DenoSent's discrete noise)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sentrep.data.augmentation.finished_pairs import KEPT, VERDICT
from sentrep.data.augmentation.translation import Translation
from sentrep.data.files import PAIR
from sentrep.io.chunks import chunks_of

BLANK = "blank in the input"
EMPTY = "empty"

Translate = Callable[[Sequence[str], tuple[int, ...]], list[Translation]]
"""A `Translator`: sentences and what to draw from, to translations."""


def back_translate(rows: Sequence[tuple[int, str]], forward: Translate, backward: Translate) -> list[dict[str, Any]]:
    """Rows with their back-translations and verdicts.

    Args:
        rows: numbers of rows and their sentences, preferably of similar lengths.
        forward: into the pivot language.
        backward: and back.

    Examples:
        >>> def upper(sentences, draw):
        ...     return [Translation(sentence.upper(), None) for sentence in sentences]
        >>> rows = [(7, "hello"), (9, "")]
        >>> [tuple(row.values()) for row in back_translate(rows, upper, upper)]
        [('hello', 'HELLO', 'kept'), ('', '', 'blank in the input')]
    """
    results = [Translation(sentence, None if sentence.strip() else BLANK) for _, sentence in rows]
    first = min(number for number, _ in rows)
    for leg, translate in enumerate((forward, backward)):
        if given := [index for index, (text, problem) in enumerate(results) if text and problem is None]:
            translations = translate([results[index].text for index in given], (first, leg))
            for index, translation in zip(given, translations, strict=True):
                results[index] = translation
    sentences = [sentence for _, sentence in rows]
    return [
        {**dict(zip(PAIR, (sentence, text), strict=True)), VERDICT: problem or (KEPT if text.strip() else EMPTY)}
        for sentence, (text, problem) in zip(sentences, results, strict=True)
    ]


def in_batches(
    rows: Sequence[tuple[int, str]],
    size: int,
    finish: Callable[[Sequence[tuple[int, str]]], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Finished rows in their order; they are finished in batches of sentences of like lengths, the longest first.

    Args:
        rows: of a shard.
        size: of a batch.
        finish: a batch to its finished rows.
    """
    order = sorted(range(len(rows)), key=lambda place: -len(rows[place][1]))
    found: dict[int, dict[str, Any]] = {}
    for batch in chunks_of(order, size):
        found |= zip(batch, finish([rows[place] for place in batch]), strict=True)
    return [found[place] for place in range(len(rows))]
