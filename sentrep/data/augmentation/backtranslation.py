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

Translate = Callable[[Sequence[str]], list[Translation]]
"""A `Translator`: sentences to translations."""


def back_translate(sentences: Sequence[str], forward: Translate, backward: Translate) -> list[dict[str, Any]]:
    """Sentences with their back-translations and verdicts.

    Args:
        sentences: preferably of similar lengths.
        forward: into the pivot language.
        backward: and back.

    Examples:
        >>> def upper(sentences):
        ...     return [Translation(sentence.upper(), None) for sentence in sentences]
        >>> [tuple(row.values()) for row in back_translate(["hello", ""], upper, upper)]
        [('hello', 'HELLO', 'kept'), ('', '', 'blank in the input')]
    """
    results = [Translation(sentence, None if sentence.strip() else BLANK) for sentence in sentences]
    for translate in (forward, backward):
        if given := [place for place, (text, problem) in enumerate(results) if text and problem is None]:
            for place, translation in zip(given, translate([results[place].text for place in given]), strict=True):
                results[place] = translation
    return [
        {**dict(zip(PAIR, (sentence, text), strict=True)), VERDICT: problem or (KEPT if text.strip() else EMPTY)}
        for sentence, (text, problem) in zip(sentences, results, strict=True)
    ]


def in_batches(
    sentences: Sequence[str], size: int, finish: Callable[[Sequence[str]], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Finished rows in the order of their sentences; batches have sentences of like lengths, the longest first.

    Args:
        sentences: of a shard.
        size: of a batch.
        finish: a batch to its finished rows.
    """
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]))
    found: dict[int, dict[str, Any]] = {}
    for batch in chunks_of(order, size):
        found |= zip(batch, finish([sentences[place] for place in batch]), strict=True)
    return [found[place] for place in range(len(sentences))]
