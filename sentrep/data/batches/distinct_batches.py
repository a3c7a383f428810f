"""Batches in which no sentence stands twice: a repeated sentence would be a negative of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sentrep.errors import InputError


class DistinctBatches:
    """Puts rows into batches so that no two rows of a batch share a sentence in any column.

    Rows with unique sentences fit into every batch. Rows with repeated sentences are placed first, one by one in a
    random order, each into a random batch with room and without its sentences; a row without such a batch is skipped
    in this epoch. The unique rows fill the rest. The time is a sort of all rows and a loop over
    the rows with repeated sentences.

    All epochs have the same number of batches, the number of the first placement. If the draws of an epoch
    fill fewer batches (in a text of almost only repeated sentences), it uses the rows of the first
    placement, with the batches in another order.

    Args:
        keys: of the sentences of every row, (rows, columns); equal sentences have equal keys.
        batch_size: rows in a batch of all processes.
        draws: of the first placement.

    Raises:
        InputError: not even one batch can be filled.
    """

    def __init__(self, keys: NDArray[np.uint64], batch_size: int, draws: np.random.Generator) -> None:
        self._batch_size = batch_size
        _, sentences, counts = np.unique(keys, return_inverse=True, return_counts=True)
        sentences = sentences.reshape(keys.shape)
        # a sentence that stands twice in one row (its own positive) repeats nothing; taking it for a repetition costs
        # time and is not wrong
        repeated = (counts[sentences] > 1).any(axis=1)
        self._free = np.flatnonzero(~repeated)
        self._repeated = np.flatnonzero(repeated)
        self._sentences = sentences[self._repeated]
        self.batches = min(_most_batches(np.bincount(column), batch_size) for column in sentences.T)
        """Batches of every epoch."""
        self._usable = len(keys)
        placed = None
        while placed is None:
            self.batches = min(self.batches, self._usable // batch_size)
            if self.batches < 1:
                raise InputError(f"no_duplicates: too few different sentences for one batch of {batch_size}; lower it")
            placed = self._place(draws)  # one that fails has placed too few for so many batches
        self._first = placed

    def order(self, draws: np.random.Generator) -> NDArray[np.intp]:
        """Rows of an epoch, (batches · batch_size,): the batches behind one another."""
        placed = self._place(draws)
        if placed is None:
            placed = self._first[draws.permutation(self.batches)]
        return draws.permuted(placed, axis=1).ravel()  # within a batch too: the processes take consecutive rows

    def _place(self, draws: np.random.Generator) -> NDArray[np.intp] | None:
        """Rows by batch, (batches, batch_size), or None where too few can be placed; `_usable` says how many could."""
        order = draws.permutation(len(self._repeated))
        batch_of = self._spread(self._sentences[order], draws.random(len(order)).tolist())
        inside = batch_of >= 0
        free = draws.permutation(self._free)
        self._usable = int(inside.sum()) + len(free)
        size = self.batches * self._batch_size
        if self._usable < size:
            return None
        room = self._batch_size - np.bincount(batch_of[inside], minlength=self.batches)
        rows = np.concatenate([self._repeated[order[inside]], free[: int(room.sum())]])
        batch = np.concatenate([batch_of[inside], np.repeat(np.arange(self.batches), room)])
        return rows[np.argsort(batch, kind="stable")].reshape(self.batches, self._batch_size)

    def _spread(self, sentences: NDArray[np.intp], draws: list[float]) -> NDArray[np.intp]:
        """Batch of each row, given its sentences (rows, columns) and a number in [0, 1); -1 for none."""
        room = [self._batch_size] * self.batches
        open_batches = list(range(self.batches))
        placed = np.full(len(sentences), -1, np.intp)
        taken: set[int] = set()  # sentence · batches + batch: a set for each sentence would keep the collector busy
        times: Counter[int] = Counter()
        rows: Iterable[tuple[int, ...]] = zip(*(sentences.T * self.batches).tolist(), strict=True)
        for number, (row, draw) in enumerate(zip(rows, draws, strict=True)):
            if any(times[sentence] >= self.batches for sentence in row):
                continue
            start, count = int(draw * len(open_batches)), len(open_batches)
            for probe in range(start, start + count):
                batch = open_batches[probe % count]
                if not any(sentence + batch in taken for sentence in row):
                    break
            else:
                continue
            placed[number] = batch
            for sentence in set(row):
                taken.add(sentence + batch)
                times[sentence] += 1
            room[batch] -= 1
            if not room[batch]:
                open_batches[probe % count] = open_batches[-1]
                open_batches.pop()
        return placed


def _most_batches(counts: NDArray[np.intp], batch_size: int) -> int:
    """Batches that sentences standing so many times can fill at most, each at most once in a batch."""
    batches = int(counts.sum()) // batch_size
    while (possible := int(np.minimum(counts, batches).sum()) // batch_size) < batches:
        batches = possible
    return batches
