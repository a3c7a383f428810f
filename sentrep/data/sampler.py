"""Which rows form which batch on which process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from sentrep.errors import InputError


class GlobalBatchSampler(Sampler[list[int]]):
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

    Raises:
        InputError: the fraction is out of range, or there are fewer rows than one global batch needs.

    Example:
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
    ) -> None:
        if not 0 < fraction <= 1:
            raise InputError(f"fraction {fraction}: expected a share of the corpus, above 0 and at most 1")
        if batch_size < 1:
            raise InputError(f"batch_size {batch_size}: expected at least 1")
        self.rows, self.batch_size, self.rank, self.world_size = rows, batch_size, rank, world_size
        self.seed, self.fraction, self.reshuffle = seed, fraction, reshuffle
        self.kept = max(1, round(fraction * rows)) if rows else 0
        if self.kept < self.global_batch_size:
            raise InputError(
                f"the corpus has {self.kept} usable rows, but one batch over all processes takes "
                f"{self.global_batch_size}; lower the batch size or give more text"
            )
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

    @property
    def dropped(self) -> int:
        """Rows left out of each epoch because they do not fill a global batch."""
        return self.kept % self.global_batch_size

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; nothing changes if this is the epoch already. Lightning calls it every epoch."""
        # Resuming from the end of an epoch in training by steps, Lightning counts one epoch without a single batch
        if self._resumed and self._announced not in (None, epoch) and self.done == 0:
            self.skipped += 1
        self._announced = epoch
        if self.epoch != epoch - self.skipped:
            self.epoch, self.done = epoch - self.skipped, 0

    def resume(self, epoch: int, done: int, skipped: int) -> None:
        """Take up the position of another run."""
        self.epoch, self.done, self.skipped = epoch, done, skipped
        self._announced, self._resumed = None, True

    def order(self) -> NDArray[np.uint32]:
        """The kept rows in this epoch's order, (kept,)."""
        rows = np.arange(self.rows, dtype=np.uint32)
        if self.kept < self.rows:
            np.random.default_rng(np.random.SeedSequence(self.seed)).shuffle(rows)
            rows = rows[: self.kept]
        epoch = self.epoch if self.reshuffle else 0
        np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(epoch,))).shuffle(rows)
        return rows

    def __len__(self) -> int:
        return self.kept // self.global_batch_size

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order()
        for batch in range(self.done, len(self)):
            start = batch * self.global_batch_size + self.rank * self.batch_size
            yield order[start : start + self.batch_size].tolist()
