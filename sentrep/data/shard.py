"""A process's share of work that several processes divide without talking to each other."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sentrep.errors import InputError


@dataclass(frozen=True)
class Shard:
    """Which batches or parts are this process's: number ``index``, ``index + count``, ... of them."""

    index: int
    count: int
    origin: str
    """Who said so."""

    @staticmethod
    def of(text: str | None) -> Shard:
        """From ``"0/4"``, or else from torchrun's environment, or else everything.

        Raises:
            InputError: the text is not I/N with 0 ≤ I < N.
        """
        if text is None:
            rank, world_size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
            return Shard(int(rank), int(world_size), "torchrun" if "RANK" in os.environ else "default")
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise InputError(f"shard {text!r}: expected I/N, the shard's number from 0 and how many, for example 0/4")
        return Shard(int(index), int(count), "--shard")

    def __str__(self) -> str:
        return f"shard {self.index} of {self.count}"
