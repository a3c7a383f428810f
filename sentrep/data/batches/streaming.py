"""Training text that is read while it is trained on: nothing of it is kept, on the disk or in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sentrep import checks
from sentrep.data.batches.sampler import BatchOrder
from sentrep.data.text.cache import TokenRow
from sentrep.data.text.corpus import Corpus, CorpusRow
from sentrep.errors import InputError
from sentrep.types import Tokenize

logger = logging.getLogger("sentrep")

_ROWS_OF_A_SOURCE = 1 << 40
"""The number of a row is that in its source plus so many times the source's: unique without counting any source."""


class _Start(NamedTuple):
    """Where a block begins."""

    turn: int
    """Sources of this epoch that are read to their end."""
    row: int
    """Rows of the next source that are read, blank ones included."""


class StreamedBatches(BatchOrder):
    """The batches of one process out of a text that is too large to be kept.

    In each epoch the sources (files, shards) come in another order, and the rows are shuffled in blocks of ``buffer``
    consecutive rows, so that memory holds one block. Global batch b is rows W·n·b to W·n·(b+1) of what results, and
    process r takes the rows r·n to (r+1)·n of these: W processes with batch size n see what one process with W·n sees,
    as with `GlobalBatchSampler`, each row of an epoch is in one batch of one process, and only what does not fill a
    last global batch is left out. Every process reads the whole text and tokenises its own rows.

    All is a function of seed and epoch. A block is shuffled by draws of its own (from seed, epoch and its number), so
    that a resumed run starts to read at the block, not at the beginning of the epoch, and in the source, not in the
    text: it skips the sources that are done, and reads over what is done of the one it stopped in.

    Args:
        corpus: the text.
        batch_size: n, rows per process.
        buffer: rows in a block, at least 1; 1 shuffles the sources alone.
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
        self._starts: dict[int, _Start] = {}

    def settings(self) -> dict[str, int | float | str]:
        """What the order depends on."""
        return {"global batch size": self.global_batch_size, "seed": self.seed, "shuffle_buffer": self.buffer}

    def place(self, done: int) -> dict[str, Any]:
        """The block in which batch ``done`` begins, and where in the text this block begins."""
        wanted = done * self.global_batch_size // self.buffer
        block = max((block for block in self._starts if block <= wanted), default=0)
        return {"block": block, **self._starts.get(block, _Start(0, 0))._asdict()}

    def resume(self, epoch: int, done: int, skipped: int, place: dict[str, Any]) -> None:
        """Take up the position of another run."""
        super().resume(epoch, done, skipped, place)
        self._starts = {place["block"]: _Start(place["turn"], place["row"])}

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch, see `BatchOrder.set_epoch`."""
        before = self.epoch
        super().set_epoch(epoch)
        if self.epoch != before:
            self._starts = {}

    def __iter__(self) -> Iterator[list[CorpusRow]]:
        size, first = self.global_batch_size, self.done * self.global_batch_size
        if first == 0:
            self._starts = {}
        place = self.place(self.done)
        rows = self._shuffled(place["block"], _Start(place["turn"], place["row"]))
        read = place["block"] * self.buffer + sum(1 for _ in islice(rows, first - place["block"] * self.buffer))
        while len(batch := list(islice(rows, size))) == size:
            read += size
            yield batch[self.rank * self.batch_size : (self.rank + 1) * self.batch_size]
        read += len(batch)
        if read < size:
            raise self.too_few(read)
        logger.info(
            "%s: end of an epoch of %d rows; %d left out that do not fill a batch; %d blank ones skipped%s",
            *(self.corpus.name, read, len(batch), self._blank, " since the run was resumed" if first else ""),
        )

    def _shuffled(self, block: int, start: _Start) -> Iterator[CorpusRow]:
        """Rows of the epoch from a block on."""
        epoch = self.epoch if self.reshuffle else 0
        rows = self._rows(epoch, start)
        while chunk := list(islice(rows, self.buffer)):
            self._starts[block] = start
            draws = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch, block)))
            yield from (chunk[position] for position in draws.permutation(len(chunk)).tolist())
            block, start = block + 1, self._next
            self._forget(block)

    def _rows(self, epoch: int, start: _Start) -> Iterator[CorpusRow]:
        """Rows with text, in the order of the sources; `_next` is behind the last one given."""
        draws = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch,)))
        order = draws.permutation(len(self.corpus.sources)).tolist()
        self._blank = 0
        for turn, source in list(enumerate(order))[start.turn :]:
            skip = start.row if turn == start.turn else 0
            for number, sentences in enumerate(self.corpus.sentences_of(source, skip), start=skip):
                row = CorpusRow(source * _ROWS_OF_A_SOURCE + number, sentences)
                if row.blank:
                    self._blank += 1
                else:
                    self._next = _Start(turn, number + 1)
                    yield row

    def _forget(self, block: int) -> None:
        """Drop starts that no state can ask for: batches are read ahead, but not by more than these."""
        ahead = 64 * self.global_batch_size // self.buffer + 2
        delivered = self.done * self.global_batch_size // self.buffer
        for old in [old for old in self._starts if old < delivered - ahead]:
            del self._starts[old]


class TokenizedRows:
    """Makes token ids of rows, in whatever process it is asked to: what a loader with `StreamedBatches` fetches from.

    Args:
        tokenize: gives the ids.
        max_length: longest sequence in tokens; None means the model's limit.
    """

    def __init__(self, tokenize: Tokenize, max_length: int | None) -> None:
        self._tokenize, self._max_length = tokenize, max_length

    def __getitems__(self, rows: Sequence[CorpusRow]) -> list[TokenRow]:
        columns = [self._ids(column) for column in zip(*(row.sentences for row in rows), strict=True)]
        return [TokenRow(row.number, ids) for row, ids in zip(rows, zip(*columns, strict=True), strict=True)]

    def _ids(self, sentences: Sequence[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._tokenize(sentences, self._max_length)[0]]


def check_streaming(max_steps: int | None, asked: Mapping[str, Any]) -> None:
    """Refuse what streaming cannot do.

    Args:
        max_steps: of the trainer, -1 for none; None where there is no trainer.
        asked: settings that need all rows at hand, and whether they are asked for.

    Raises:
        InputError: one is, or nothing says when to stop.
    """
    if wanted := " and ".join(f"data.{name}" for name in asked if asked[name]):
        raise InputError(
            f"data.reading.streaming reads the text from start to end and has never all of it at hand, which {wanted} "
            "would need: leave out one or the other"
        )
    if max_steps == -1:
        raise InputError(
            "data.reading.streaming does not know how long the text is: say when to stop by --trainer.max_steps, for "
            "example the number of rows over the batch size of all processes"
        )
