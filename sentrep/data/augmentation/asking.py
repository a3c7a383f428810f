"""A language model asked about every row of a corpus, many requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sentrep.data.augmentation.endpoint import Answer, Endpoint, NoAnswerError
from sentrep.data.augmentation.filters import BLANK
from sentrep.data.augmentation.parts import ROW, VERDICT, Finished, PartStore
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError

COUNTS = ("requests", "input_tokens", "output_tokens")
"""What is counted for every row."""

MALFORMED = "malformed answer"
NO_ANSWER = "no answer"

_PATIENCE = 8
MOST_REQUESTS = 4096
"""Under way at a time: every one is a connection, and a file that is open."""


@dataclass
class Asking:
    """One run over the rows that have no answer yet.

    Args:
        store: where the answers go, with ``columns`` and `COUNTS`.
        endpoint: whom to ask.
        columns: of the sentence and of every text of an answer.
        judge: sentence and the texts of an answer to a verdict.
        concurrency: requests under way at a time.
        batch_size: answers that are written together; a kill loses fewer than this, and the requests under way.
        advance: is told of every row: what it has become, None where it was finished before.
    """

    store: PartStore
    endpoint: Endpoint
    columns: Sequence[str]
    judge: Callable[[str, tuple[str, ...]], str]
    concurrency: int = 16
    batch_size: int = 32
    advance: Callable[[Finished | None], None] = lambda finished: None
    failed: list[CorpusRow] = field(default_factory=list)
    """Rows without an answer in this run."""
    reason: str = ""
    """Why the last one of them has none."""

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MOST_REQUESTS or self.batch_size < 1:
            raise InputError(
                f"concurrency {self.concurrency}, batch_size {self.batch_size}: expected at least 1, and at most "
                f"{MOST_REQUESTS:,} requests at a time"
            )
        self._waiting: list[Finished] = []
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
        """Count the rows in `failed` as finished, without an answer."""
        for row in self.failed:
            self._keep(row, NO_ANSWER)
        self._write()
        self.failed.clear()

    def _open_rows(self, rows: Iterable[CorpusRow]) -> Iterator[CorpusRow]:
        for row in rows:
            if row.number in self.store:
                self.advance(None)
            elif row.blank:
                self._keep(row, BLANK)
            else:
                yield row

    async def _work(self, rows: Iterator[CorpusRow]) -> None:
        for row in rows:  # all workers take from one iterator
            try:
                answer = await self.endpoint.ask(row.sentences[0], row.number)
            except NoAnswerError as error:
                self._count_failure(row, str(error))
            else:
                self._failures_in_a_row = 0
                self._keep(
                    row, MALFORMED if answer.texts is None else self.judge(row.sentences[0], answer.texts), answer
                )

    def _keep(self, row: CorpusRow, verdict: str, answer: Answer = Answer(None, 0, 0, 0)) -> None:  # noqa: B008
        texts, *counts = answer
        cells = dict.fromkeys(self.columns, "") | dict(
            zip(self.columns, (row.sentences[0], *(texts or ())), strict=False)
        )
        finished = {ROW: row.number, VERDICT: verdict, **cells, **dict(zip(COUNTS, counts, strict=True))}
        self._waiting.append(finished)
        self.advance(finished)
        if len(self._waiting) >= self.batch_size:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self.store.add(self._waiting)
            self._waiting.clear()

    def _count_failure(self, row: CorpusRow, reason: str) -> None:
        self.failed.append(row)
        self.reason = reason
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= self.concurrency + _PATIENCE:
            raise InputError(
                f"the last {self._failures_in_a_row} requests got no answer ({reason}); all answers so far are kept in "
                f"{self.store.folder}: run the same command again when the server answers"
            )
