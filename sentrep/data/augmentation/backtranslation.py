"""Back-translation: a sentence into another language and back is a paraphrase of it (DenoSent's discrete noise)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sentrep.data.augmentation.filters import BLANK, KEPT, PairFilter
from sentrep.data.augmentation.parts import ROW, PartStore
from sentrep.data.augmentation.translation import Translation
from sentrep.data.text.corpus import CorpusRow
from sentrep.data.text.shard import Shard
from sentrep.errors import InputError

PAIR_SCHEMA = pa.schema([("sent0", pa.string()), ("sent1", pa.string())])
"""Of the output: sentence and positive, under the names that `SentRepDataModule` reads by itself."""

_PART_SCHEMA = pa.schema([(ROW, pa.int64()), *PAIR_SCHEMA, ("verdict", pa.string())])
_WINDOW = 16384

Translate = Callable[[Sequence[str], tuple[int, ...]], list[Translation]]
"""A `Translator`: sentences and what to draw from, to translations."""


@dataclass(frozen=True)
class BackTranslation:
    """Sentences and their back-translations, judged by a filter.

    Example:
        >>> def upper(sentences, draw):
        ...     return [Translation(sentence.upper(), None) for sentence in sentences]
        >>> shout = BackTranslation(upper, upper, PairFilter(identical=False))
        >>> columns = shout([CorpusRow(7, ("hello",)), CorpusRow(9, ("",))])
        >>> columns["sent1"], columns["verdict"]
        (['HELLO', ''], ['kept', 'blank in the input'])
    """

    forward: Translate
    """Into the pivot language."""
    backward: Translate
    """And back."""
    check: PairFilter
    """What is kept."""

    def __call__(self, rows: Sequence[CorpusRow]) -> dict[str, list[Any]]:
        """The columns of a part: row, sentence, back-translation, verdict (a name of the filters)."""
        sentences = [row.sentences[0] for row in rows]
        results = [Translation("", BLANK)] * len(rows)
        given = [index for index, sentence in enumerate(sentences) if sentence.strip()]
        first = min((row.number for row in rows), default=0)
        for leg, translate in enumerate((self.forward, self.backward)):
            if given:
                texts = [results[index].text if leg else sentences[index] for index in given]
                for index, result in zip(given, translate(texts, (first, leg)), strict=True):
                    results[index] = result
            given = [index for index in given if results[index].problem is None and results[index].text]
        verdicts = [
            result.problem or self.check(sentence, result.text)
            for sentence, result in zip(sentences, results, strict=True)
        ]
        texts = [result.text for result in results]
        return {ROW: [row.number for row in rows], "sent0": sentences, "sent1": texts, "verdict": verdicts}


def translate_corpus(
    rows: Iterable[CorpusRow],
    store: PartStore,
    back_translate: BackTranslation,
    batch_size: int,
    shard: Shard,
    advance: Callable[[int], None] = lambda count: None,
) -> None:
    """Back-translate what is not in the store yet, one part a batch.

    The batches depend on the rows and the batch size alone. So the shards together, and a run that was interrupted,
    give what one run gives.

    Args:
        rows: the whole corpus, whatever the shard.
        store: where the results go.
        back_translate: makes the columns of a part.
        batch_size: sentences at a time.
        shard: of this process.
        advance: is told how many rows of this shard are done.
    """
    for number, batch in enumerate(length_sorted_batches(rows, batch_size, _WINDOW)):
        if number % shard.count == shard.index:
            if left := [row for row in batch if row.number not in store]:
                store.add(back_translate(left), _PART_SCHEMA)
            advance(len(batch))


def length_sorted_batches(rows: Iterable[CorpusRow], batch_size: int, window: int) -> Iterator[list[CorpusRow]]:
    """Batches of sentences of like lengths: each window of the corpus is sorted by length, the longest first.

    Example:
        >>> rows = [CorpusRow(n, (text,)) for n, text in enumerate(["a", "bb bb", "ccc", "dddd", "e"])]
        >>> [[row.number for row in batch] for batch in length_sorted_batches(rows, 2, window=4)]
        [[1, 3], [2, 0], [4]]
    """
    if batch_size < 1:
        raise InputError(f"batch_size {batch_size}: expected at least 1")
    remaining = iter(rows)
    while chunk := list(islice(remaining, window)):
        chunk.sort(key=lambda row: -len(row.sentences[0]))
        yield from (chunk[start : start + batch_size] for start in range(0, len(chunk), batch_size))


def rows_of(shard: Shard, total: int, batch_size: int) -> int:
    """How many of ``total`` rows `translate_corpus` does in this shard.

    Example:
        >>> [rows_of(Shard(index, 2, ""), 10, 4) for index in (0, 1)]
        [6, 4]
    """
    windows = [min(_WINDOW, total - start) for start in range(0, total, _WINDOW)]
    sizes = [min(batch_size, window - start) for window in windows for start in range(0, window, batch_size)]
    return sum(sizes[shard.index :: shard.count])


def publish_pairs(store: PartStore) -> None:
    """Write the output of a finished back-translation: the pairs that were kept, in the order of the corpus."""

    def select(table: pa.Table) -> pa.Table:
        return table.filter(pc.equal(table["verdict"], KEPT)).select(PAIR_SCHEMA.names)

    store.publish(PAIR_SCHEMA, select, count_verdicts)


def count_verdicts(tables: Iterable[pa.Table]) -> Mapping[str, Any]:
    """``{"rows": how many, "verdicts": {name: how many}}``, the most frequent first."""
    verdicts: Counter[str] = Counter()
    for table in tables:
        verdicts.update(table["verdict"].to_pylist())
    return {"rows": verdicts.total(), "verdicts": dict(verdicts.most_common())}
