"""Training text that is read while it is trained on: nothing of it is kept, on the disk or in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from datasets import IterableDataset

from sentrep.data.batches.sampler import BatchOrder
from sentrep.data.files import is_blank, sentences_of
from sentrep.data.tokens import StreamedRow
from sentrep.errors import InputError

logger = logging.getLogger("sentrep")

Numbers: TypeAlias = Sequence[int]


class _Window(NamedTuple):
    """Rows that are shuffled together."""

    rows: list[StreamedRow]
    behind: tuple[int, int]
    """The file (in the epoch's order) and the row in it where the next window begins."""


class StreamedBatches(BatchOrder):
    """The batches of one process out of a text that is too large to be kept.

    In each epoch the files (or the shards of a data set) come in another order. The rows that are not blank are read in
    windows of about ``buffer`` rows, each a whole number of batches, and every window is shuffled. All of this follows
    from seed and epoch, so that a run resumes exactly, at the file and the row where the window of its next batch
    begins. The number of a row tells it from the others: row k of file f, of F files, has the number k·F + f.

    With at least W files, each of W processes reads every W-th of them and no other. The epoch ends for all processes
    when one has no whole batch left, and the next epoch deals the files anew. With fewer files every process reads the
    whole text: global batch b is the rows W·n·b to W·n·(b+1), of which process r takes the rows r·n to (r+1)·n, so that
    W processes with batch size n see what one process with W·n sees.

    Args:
        text: the rows; a file, or a shard of a data set, is a shard.
        batch_size: n, rows per process.
        buffer: rows to shuffle at a time, at least 1; 1 shuffles the files alone.
        rank: r.
        world_size: W.
        seed: of the order, ≥ 0.
        reshuffle: another order in every epoch; False repeats the first one.
        gather: gives the numbers of every process, in the order of the ranks, once in each window.

    Raises:
        InputError: a number is out of range; while reading: see `sentrep.data.load`, or the text does not fill a batch.
    """

    def __init__(
        self,
        text: IterableDataset,
        batch_size: int,
        *,
        buffer: int = 10_000,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        reshuffle: bool = True,
        gather: Callable[[Numbers], Sequence[Numbers]] = lambda own: [own],
    ) -> None:
        if buffer < 1:
            raise InputError(f"data.shuffle_buffer must be at least 1, got {buffer}")
        super().__init__(batch_size, rank, world_size)
        self.text, self.buffer, self.seed, self.reshuffle = text, buffer, seed, reshuffle
        self._gather = gather
        self._divides = text.num_shards >= world_size
        """Whether each process reads files of its own."""
        if not self._divides:
            counts = text.num_shards, world_size
            logger.warning("fewer files (%d) than processes (%d): each process reads the whole text", *counts)
        self._width = batch_size if self._divides else self.global_batch_size
        """Rows read for a batch of this process."""
        self._batches = max(1, buffer // self._width)
        """Batches of a window."""
        self._places: dict[int, list[Numbers]] = {}
        """By window, for each process: the file and the row where it begins, see `_Window`."""
        self._blank = 0

    def settings(self) -> dict[str, int | float | str]:
        """The settings on which the order depends."""
        processes = {"processes": self.world_size} if self._divides and self.world_size > 1 else {}
        return {
            "global batch size": self.global_batch_size,
            "seed": self.seed,
            "shuffle_buffer": self.buffer,
            **processes,
        }

    def place(self, done: int) -> dict[str, Any]:
        """Where the window of batch ``done`` begins."""
        window = done // self._batches
        return {"window": window, "begins": self._places[window]} if window in self._places else {}

    def resume(self, epoch: int, done: int, skipped: int, place: dict[str, Any]) -> None:
        """Take up the position of another run."""
        super().resume(epoch, done, skipped, place)
        self._places = {place["window"]: place["begins"]} if place else {}

    def __iter__(self) -> Iterator[list[StreamedRow]]:
        files = self._draws().permutation(self.text.num_shards).tolist()
        offset = 0 if self._divides else self.rank * self.batch_size
        done, self._blank = self.done, 0
        number = done // self._batches if self.place(done) else 0
        begins: list[Numbers] = self._places[number] if number else [(0, 0)]
        self._places = {number: begins}
        if self._divides:
            files = files[self.rank :: self.world_size]
        for window in self._windows(files, *begins[self.rank % len(begins)]):
            everyone = self._gather([len(window.rows) // self._width, *window.behind])
            whole = min(whole for whole, *_ in everyone)
            self._places[number + 1] = [behind for _, *behind in everyone]
            self._places.pop(self.done // self._batches - 2, None)
            rows = window.rows
            if self.buffer > 1:
                rows = [rows[place] for place in self._draws(number).permutation(len(rows))]
            for batch in range(max(0, done - number * self._batches), whole):
                start = batch * self._width + offset
                yield rows[start : start + self.batch_size]
            number += 1
            if whole < self._batches:
                break
        if number == 1 and not whole:
            raise self.too_few(len(rows))
        counts = len(rows) - whole * self._width, self._blank, " since the resume" if self._resumed else ""
        logger.info("end of an epoch: %d rows that fill no batch are left out, %d blank ones skipped%s", *counts)

    def _windows(self, files: Sequence[int], file: int, row: int) -> Iterator[_Window]:
        """The windows from a row of a file on; the last one, which may be empty, is not whole."""
        rows, shards = list[StreamedRow](), self.text.num_shards
        for place, source in enumerate(files[file:], start=file):
            skipped = row if place == file else 0
            for number, found in enumerate(self.text.shard(shards, source).skip(skipped), start=skipped):
                sentences = sentences_of(found)
                if is_blank(sentences):
                    self._blank += 1
                    continue
                rows.append((number * shards + source, sentences))
                if len(rows) == self._batches * self._width:
                    yield _Window(rows, (place, number + 1))
                    rows = []
        yield _Window(rows, (len(files), 0))

    def _draws(self, *window: int) -> np.random.Generator:
        """Draws for the order of the files or, with its number, for a window, which differs between processes."""
        epoch = self.epoch if self.reshuffle else 0
        own = (*window, self.rank if self._divides else 0) if window else ()
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch, *own)))
