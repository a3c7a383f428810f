"""Training text that is read while it is trained on: nothing of it is kept, on the disk or in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sentrep import checks
from sentrep.data.batches.sampler import BatchOrder
from sentrep.data.text.corpus import Corpus, CorpusRow, RowReader
from sentrep.data.text.tables import reading
from sentrep.data.text.tokenized import TokenRows
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

_BEHIND = 2
"""Batches whose place is kept behind the last one delivered: the step of that one may have failed."""


class StreamedBatches(BatchOrder):
    """The batches of one process out of a text that is too large to be kept.

    The order is that of `datasets.IterableDataset.shuffle`: in each epoch the files or shards come in another order,
    and rows are drawn from a buffer of ``buffer`` rows. Global batch b is rows W·n·b to W·n·(b+1) of what results, and
    process r takes the rows r·n to (r+1)·n of these: W processes with batch size n see what one process with W·n sees,
    as with `GlobalBatchSampler`, and only what does not fill a last global batch is left out. Every process reads the
    whole text and tokenises its own rows. (`datasets.distributed.split_dataset_by_node` reads less and gives the
    processes different numbers of batches, for which they would wait for each other.)

    Resuming is that of `datasets.IterableDataset.state_dict`: reading goes on near the row where it stood with an
    empty buffer, so that about ``buffer`` rows of the epoch are left out or seen again. With a buffer of 1 it is exact.

    Args:
        corpus: the text.
        batch_size: n, rows per process.
        buffer: rows to draw from, at least 1; 1 shuffles the files or shards alone.
        rank: r.
        world_size: W.
        seed: of the order, ≥ 0.
        reshuffle: another order in every epoch; False repeats the first one.

    Raises:
        InputError: a number is out of range; while reading: see `Corpus.rows`, or the text does not fill a batch.
    """

    def __init__(
        self,
        corpus: Corpus,
        batch_size: int,
        *,
        buffer: int = 10_000,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        reshuffle: bool = True,
    ) -> None:
        checks.whole(self, 1, shuffle_buffer=buffer)
        super().__init__(batch_size, rank, world_size)
        self.corpus, self.buffer, self.seed, self.reshuffle = corpus, buffer, seed, reshuffle
        self._stream = corpus.stream()
        self._places: dict[int, dict[str, Any]] = {}

    def settings(self) -> dict[str, int | float | str]:
        """What the order depends on."""
        return {"global batch size": self.global_batch_size, "seed": self.seed, "shuffle_buffer": self.buffer}

    def place(self, done: int) -> dict[str, Any]:
        """How far the text was read when batch ``done`` was complete."""
        return self._places.get(done, {})

    def resume(self, epoch: int, done: int, skipped: int, place: dict[str, Any]) -> None:
        """Take up the position of another run."""
        super().resume(epoch, done, skipped, place)
        self._places = {done: place}

    def __iter__(self) -> Iterator[list[CorpusRow]]:
        stream = self._stream.shuffle(seed=self.seed, buffer_size=self.buffer)
        stream.set_epoch(self.epoch if self.reshuffle else 0)
        done = self.done
        self._places = {done: self.place(done)} if done else {}
        if self.place(done):
            stream.load_state_dict(self.place(done)["stream"])
        examples, number = iter(stream), self.place(done).get("rows", 0)
        read = RowReader(self.corpus.name, "row", self.corpus.longest, 0, None)
        blank = 0
        while True:
            batch: list[CorpusRow] = []
            with reading(self.corpus.name):
                while len(batch) < self.global_batch_size and (example := next(examples, None)) is not None:
                    (row,) = read([tuple(example.values())], number)
                    number += 1
                    blank += row.blank
                    batch += [] if row.blank else [row]
            if len(batch) < self.global_batch_size:
                break
            done += 1
            self._places[done] = {"stream": stream.state_dict(), "rows": number}
            self._places.pop(self.done - _BEHIND, None)
            yield batch[self.rank * self.batch_size : (self.rank + 1) * self.batch_size]
        if not done:
            raise self.too_few(len(batch))
        logger.info(
            "%s: end of an epoch; %d rows that do not fill a batch are left out; %d blank ones skipped%s",
            *(self.corpus.name, len(batch), blank, " since the run was resumed" if self._resumed else ""),
        )


class TokenizedRows:
    """Makes token ids of rows, in whatever process it is asked to: what a loader with `StreamedBatches` fetches from.

    Args:
        tokenize: gives the ids.
        max_length: longest sequence in tokens; None means the model's limit.
    """

    def __init__(self, tokenize: Tokenize, max_length: int | None) -> None:
        self._tokenize, self._max_length = tokenize, max_length

    def __getitem__(self, rows: Sequence[CorpusRow]) -> TokenRows:
        """As `TokenizedCorpus` gives them."""
        texts = zip(*(row.sentences for row in rows), strict=True)
        columns = [[np.array(ids, np.int32) for ids in self._tokenize(part, self._max_length)[0]] for part in texts]
        return TokenRows(np.array([row.number for row in rows]), columns)
