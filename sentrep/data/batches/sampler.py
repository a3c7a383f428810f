"""Which rows form which batch on which process, and the place in the epochs that every order of batches knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from sentrep.data.batches.distinct_batches import DistinctBatches
from sentrep.errors import InputError


class BatchOrder(Sampler[list[Any]], ABC):
    """Gives the batches of one process and knows how many of the epoch are done.

    Args:
        batch_size: n, rows per process.
        rank: this process.
        world_size: W.

    Raises:
        InputError: the batch size is below 1.
    """

    def __init__(self, batch_size: int, rank: int, world_size: int) -> None:
        if batch_size < 1:
            raise InputError(f"data.batch_size must be at least 1, got {batch_size}")
        self.batch_size, self.rank, self.world_size = batch_size, rank, world_size
        self.epoch = 0
        self.done = 0
        """Batches of the epoch that have been delivered; iteration starts behind them."""
        self.skipped = 0
        """Epochs that were announced after a resume but had no batch, see `set_epoch`."""
        self._announced: int | None = None
        self._resumed = False

    @property
    def global_batch_size(self) -> int:
        """W·n."""
        return self.batch_size * self.world_size

    @abstractmethod
    def __iter__(self) -> Iterator[list[Any]]:
        """The batches of the epoch after the first `done`."""

    @abstractmethod
    def settings(self) -> dict[str, int | float | str]:
        """The settings of the order, named for the message about a resumed run with other values."""

    @abstractmethod
    def place(self, done: int) -> dict[str, Any]:
        """From where batch ``done`` of this epoch can be found without going through all before it."""

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; nothing changes if this is the epoch already. Lightning calls it every epoch."""
        # Resuming from the end of an epoch in training by steps, Lightning counts one epoch without a single batch
        if self._resumed and self._announced not in (None, epoch) and self.done == 0:
            self.skipped += 1
        self._announced = epoch
        if self.epoch != epoch - self.skipped:
            self.epoch, self.done = epoch - self.skipped, 0

    def resume(self, epoch: int, done: int, skipped: int, place: dict[str, Any]) -> None:
        """Take up the position of another run; ``place`` is what `place` said there."""
        self.epoch, self.done, self.skipped = epoch, done, skipped
        self._announced, self._resumed = None, True

    def too_few(self, rows: int) -> InputError:
        """The error of a corpus that does not fill a single batch."""
        size = self.global_batch_size
        return InputError(f"{rows} usable rows, but one batch over all processes takes {size}; lower batch_size")


class GlobalBatchSampler(BatchOrder):
    """The batches of one process: its share of the batches that all processes see together.

    The order of an epoch is a function of seed and epoch alone. Global batch b holds W·n consecutive rows of it, and
    process r takes rows r·n to (r+1)·n of these: W processes with batch size n see what one process with W·n sees.
    What does not fill a last global batch is left out of the epoch (another remainder each time).

    Args:
        rows: number of rows in the corpus.
        batch_size: n, rows per process.
        rank: r.
        world_size: W.
        seed: of the order and of the choice of the fraction, ≥ 0.
        fraction: share of the corpus to train on, in (0, 1], the same rows on all processes and in all epochs; a
            smaller fraction is a subset of a larger one (DCLR, figure 5).
        reshuffle: another order in every epoch; False repeats the first one.
        keys: of the sentences of every row, (rows, columns): then no two rows of a global batch share a sentence, see
            `DistinctBatches`. None does not look at the sentences.

    Raises:
        InputError: the fraction is out of range, or there are fewer rows than one global batch needs.

    Examples:
        >>> [list(GlobalBatchSampler(10, batch_size=2, rank=rank, world_size=2)) for rank in (0, 1)]
        [[[4, 9], [5, 3]], [[8, 7], [0, 1]]]
        >>> list(GlobalBatchSampler(10, batch_size=4))
        [[4, 9, 8, 7], [5, 3, 0, 1]]
    """

    def __init__(
        self,
        rows: int,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        fraction: float = 1.0,
        reshuffle: bool = True,
        keys: NDArray[np.uint64] | None = None,
    ) -> None:
        if not 0 < fraction <= 1:
            raise InputError(f"data.fraction must be above 0 and at most 1, got {fraction}")
        super().__init__(batch_size, rank, world_size)
        self.rows, self.seed, self.fraction, self.reshuffle = rows, seed, fraction, reshuffle
        self.kept = max(1, round(fraction * rows)) if rows else 0
        if self.kept < self.global_batch_size:
            raise self.too_few(self.kept)
        self._distinct: DistinctBatches | None = None
        if keys is not None:
            self._distinct = DistinctBatches(keys[self._kept_rows()], self.global_batch_size, self._draws())

    @property
    def dropped(self) -> int:
        """Rows left out of each epoch because they do not fill a global batch, or repeat a sentence of each."""
        return self.kept - len(self) * self.global_batch_size

    def order(self) -> NDArray[np.uint32]:
        """The rows in this epoch's order: all kept ones; without repeated sentences, those that are used."""
        rows = self._kept_rows()
        if self._distinct is not None:
            return rows[self._distinct.order(self._draws())]
        self._draws().shuffle(rows)
        return rows

    def settings(self) -> dict[str, int | float | str]:
        """The settings that determine the order."""
        return {
            "rows": self.rows,
            "global batch size": self.global_batch_size,
            "seed": self.seed,
            "fraction": self.fraction,
            **({"no_duplicates": 1} if self._distinct else {}),
        }

    def place(self, done: int) -> dict[str, Any]:
        """Nothing: every row can be reached at once."""
        return {}

    def _kept_rows(self) -> NDArray[np.uint32]:
        rows = np.arange(self.rows, dtype=np.uint32)
        if self.kept < self.rows:
            np.random.default_rng(np.random.SeedSequence(self.seed)).shuffle(rows)
        return rows[: self.kept]

    def _draws(self) -> np.random.Generator:
        epoch = self.epoch if self.reshuffle else 0
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch,)))

    def __len__(self) -> int:
        return self._distinct.batches if self._distinct else self.kept // self.global_batch_size

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order()
        for batch in range(self.done, len(self)):
            start = batch * self.global_batch_size + self.rank * self.batch_size
            yield order[start : start + self.batch_size].tolist()
