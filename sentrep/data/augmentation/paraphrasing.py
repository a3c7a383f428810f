"""Paraphrases and contrary sentences from a language model, many requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sentrep.data.augmentation.backtranslation import count_verdicts
from sentrep.data.augmentation.endpoint import Answer, NoAnswerError
from sentrep.data.augmentation.filters import BLANK, IDENTICAL, KEPT, PairFilter
from sentrep.data.augmentation.parts import ROW, PartStore
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError

TRIPLET_SCHEMA = pa.schema([("sent0", pa.string()), ("sent1", pa.string()), ("hard_neg", pa.string())])
"""Of the output: sentence, paraphrase and contrary sentence, under SimCSE's names."""

MALFORMED = "malformed answer"
NO_CONTRAST = "contrary says the same"
NO_ANSWER = "no answer"

_COUNTS = ("requests", "input_tokens", "output_tokens")
_PART_SCHEMA = pa.schema(
    [(ROW, pa.int64()), *TRIPLET_SCHEMA, ("verdict", pa.string()), *((name, pa.int64()) for name in _COUNTS)]
)
_PATIENCE = 8
MOST_REQUESTS = 4096
"""Under way at a time: every one is a connection, and a file that is open."""
_SAME_WORDS = PairFilter(script=False, min_ratio=0, max_ratio=float("inf"))


class Asks(Protocol):
    """An `Endpoint`, or what stands in for one."""

    async def ask(self, sentence: str, row: int) -> Answer: ...


@dataclass
class Paraphrasing:
    """One run over the rows that have no answer yet.

    Args:
        store: where the answers go.
        endpoint: whom to ask.
        check: what a paraphrase must satisfy.
        concurrency: requests under way at a time.
        batch_size: answers that are written together; a kill loses fewer than this, and the requests under way.
        advance: is told after every row: rows done, tokens in, tokens out.
    """

    store: PartStore
    endpoint: Asks
    check: PairFilter
    concurrency: int = 16
    batch_size: int = 32
    advance: Callable[[int, int, int], None] = lambda rows, input_tokens, output_tokens: None
    failed: dict[int, str] = field(default_factory=dict)
    """Sentences without an answer in this run, by row."""
    malformed: int = 0
    """Sentences with malformed answers in this run."""
    reason: str = ""
    """Why the last one of them has none."""

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MOST_REQUESTS or self.batch_size < 1:
            raise InputError(
                f"concurrency {self.concurrency}, batch_size {self.batch_size}: expected at least 1, and at most "
                f"{MOST_REQUESTS:,} requests at a time"
            )
        self._waiting: list[dict[str, Any]] = []
        self._failures_in_a_row = 0

    async def run(self, rows: Iterable[CorpusRow]) -> None:
        """Ask for every row that is not in the store. Rows without an answer stay open, and are in `failed`.

        Raises:
            InputError: no request can succeed, or none does any more. All answers are in the store by then.
        """
        left = self._open_rows(rows)
        workers = [asyncio.create_task(self._work(left)) for _ in range(self.concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._write()

    def give_up_on_failed(self) -> None:
        """Count the sentences in `failed` as done, without a paraphrase."""
        for row, sentence in self.failed.items():
            self._keep(row, sentence, Answer(None, 0, 0, 0), NO_ANSWER)
        self._write()
        self.failed.clear()

    def _open_rows(self, rows: Iterable[CorpusRow]) -> Iterator[CorpusRow]:
        for row in rows:
            if row.number in self.store:
                self.advance(1, 0, 0)
            elif row.blank:
                self._keep(row.number, row.sentences[0], Answer(None, 0, 0, 0), BLANK)
            else:
                yield row

    async def _work(self, rows: Iterator[CorpusRow]) -> None:
        for row in rows:  # all workers take from one iterator
            sentence = row.sentences[0]
            try:
                answer = await self.endpoint.ask(sentence, row.number)
            except NoAnswerError as error:
                self._count_failure(row.number, sentence, str(error))
                continue
            self._failures_in_a_row = 0
            self._keep(row.number, sentence, answer, self._verdict(sentence, answer.pair))

    def _verdict(self, sentence: str, pair: tuple[str, str] | None) -> str:
        if pair is None:
            self.malformed += 1
            return MALFORMED
        paraphrase, contrary = pair
        if IDENTICAL in (_SAME_WORDS(sentence, contrary), _SAME_WORDS(paraphrase, contrary)):
            return NO_CONTRAST
        return self.check(sentence, paraphrase)

    def _keep(self, row: int, sentence: str, answer: Answer, verdict: str) -> None:
        paraphrase, contrary = answer.pair or ("", "")
        texts = {"sent0": sentence, "sent1": paraphrase, "hard_neg": contrary}
        counts = {name: getattr(answer, name) for name in _COUNTS}
        self._waiting.append({ROW: row, **texts, "verdict": verdict, **counts})
        self.advance(1, answer.input_tokens, answer.output_tokens)
        if len(self._waiting) >= self.batch_size:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self.store.add({name: [row[name] for row in self._waiting] for name in _PART_SCHEMA.names}, _PART_SCHEMA)
            self._waiting.clear()

    def _count_failure(self, row: int, sentence: str, reason: str) -> None:
        self.failed[row], self.reason = sentence, reason
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= self.concurrency + _PATIENCE:
            raise InputError(
                f"the last {self._failures_in_a_row} requests got no answer ({reason}); all answers so far are kept in "
                f"{self.store.folder}: run the same command again when the server answers"
            )


def publish_triplets(store: PartStore) -> None:
    """Write the output: the rows that were kept, in the order of the corpus."""

    def select(table: pa.Table) -> pa.Table:
        return table.filter(pc.equal(table["verdict"], KEPT)).select(TRIPLET_SCHEMA.names)

    store.publish(TRIPLET_SCHEMA, select, _summarize)


def _summarize(tables: Iterable[pa.Table]) -> Mapping[str, Any]:
    totals = dict.fromkeys(_COUNTS, 0)

    def counted() -> Iterator[pa.Table]:
        for table in tables:
            for name in _COUNTS:
                totals[name] += pc.sum(table[name]).as_py()
            yield table

    return {**count_verdicts(counted()), **totals}
