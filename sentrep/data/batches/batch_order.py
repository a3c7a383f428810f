"""What every order of training batches shares: the place in the epochs, and what it depends on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from torch.utils.data import Sampler

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
            raise InputError(f"batch_size {batch_size}: expected at least 1")
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
        """The batches of the epoch behind the `done` first."""

    @abstractmethod
    def settings(self) -> dict[str, int | float | str]:
        """What the order depends on, in words for the message when a resumed run has other values."""

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
        return InputError(
            f"the corpus has {rows} usable rows, but one batch over all processes takes "
            f"{self.global_batch_size}; lower batch_size or give more text"
        )
