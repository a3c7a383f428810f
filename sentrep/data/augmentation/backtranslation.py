"""Back-translation: a sentence into another language and back is a paraphrase of it (DenoSent's discrete noise)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sentrep.data.augmentation.filters import BLANK, PairFilter
from sentrep.data.augmentation.parts import ROW, VERDICT, Finished
from sentrep.data.augmentation.translation import Translation
from sentrep.data.text.corpus import CorpusRow
from sentrep.data.text.shard import Shard

PAIR = ("sent0", "sent1")
"""Columns of the output: sentence and positive, under the names that `SentRepDataModule` reads by itself."""

WINDOW = 16384
"""Rows that are sorted by length among themselves."""

Translate = Callable[[Sequence[str], tuple[int, ...]], list[Translation]]
"""A `Translator`: sentences and what to draw from, to translations."""


@dataclass(frozen=True)
class BackTranslation:
    """Sentences and their back-translations, judged by a filter.

    Examples:
        >>> def upper(sentences, draw):
        ...     return [Translation(sentence.upper(), None) for sentence in sentences]
        >>> shout = BackTranslation(upper, upper, PairFilter(keep_identical=True))
        >>> [tuple(row.values()) for row in shout([CorpusRow(7, ("hello",)), CorpusRow(9, ("",))])]
        [(7, 'hello', 'HELLO', 'kept'), (9, '', '', 'blank in the input')]
    """

    forward: Translate
    """Into the pivot language."""
    backward: Translate
    """And back."""
    check: PairFilter
    """What is kept."""

    def __call__(self, rows: Sequence[CorpusRow]) -> list[Finished]:
        """The rows with their back-translations."""
        results = [Translation(row.sentences[0], BLANK if row.blank else None) for row in rows]
        first = min(row.number for row in rows)
        for leg, translate in enumerate((self.forward, self.backward)):
            if given := [index for index, (text, problem) in enumerate(results) if text and problem is None]:
                translations = translate([results[index].text for index in given], (first, leg))
                for index, translation in zip(given, translations, strict=True):
                    results[index] = translation
        return [self._finished(row, translation) for row, translation in zip(rows, results, strict=True)]

    def _finished(self, row: CorpusRow, translation: Translation) -> Finished:
        (sentence,), (text, problem) = row.sentences, translation
        verdict = problem or self.check(sentence, text)
        return {ROW: row.number, "sent0": sentence, "sent1": text, VERDICT: verdict}


def batches_of(shard: Shard, rows: Iterable[CorpusRow], batch_size: int) -> Iterator[list[CorpusRow]]:
    """The batches of a shard: sentences of like lengths, each window of the corpus sorted, the longest first.

    They depend on the rows and the batch size alone. So the shards together, and a run that was interrupted, give what
    one run gives.

    Args:
        shard: of this process.
        rows: the whole corpus, whatever the shard.
        batch_size: sentences at a time.

    Examples:
        >>> rows = [CorpusRow(n, (text,)) for n, text in enumerate(["a", "bb bb", "ccc", "dddd", "e"])]
        >>> [[[row.number for row in batch] for batch in batches_of(Shard(n, 2, ""), rows, 2)] for n in (0, 1)]
        [[[1, 3], [4]], [[2, 0]]]
    """

    def batches() -> Iterator[list[CorpusRow]]:
        remaining = iter(rows)
        while window := sorted(islice(remaining, WINDOW), key=lambda row: -len(row.sentences[0])):
            yield from (window[start : start + batch_size] for start in range(0, len(window), batch_size))

    return islice(batches(), shard.index, None, shard.count)
