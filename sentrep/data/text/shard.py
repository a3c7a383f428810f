"""A process's share of work that several processes divide without talking to each other."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lightning.fabric.plugins.environments import SLURMEnvironment

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
        """From ``"0/4"``, or else from torchrun's environment, or srun's, or else everything.

        Raises:
            InputError: the text is not I/N with 0 ≤ I < N.
        """
        if text is None:
            return _of_launcher()
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise InputError(f"shard {text!r}: expected I/N, the shard's number from 0 and how many, for example 0/4")
        return Shard(int(index), int(count), "--shard")

    def __str__(self) -> str:
        return f"shard {self.index} of {self.count}"


EVERYTHING = Shard(0, 1, "default")


def local_rank() -> int:
    """The rank of this process on its machine, which is the number of its GPU; 0 without a launcher."""
    if "LOCAL_RANK" not in os.environ and _is_started_by_srun():
        return SLURMEnvironment().local_rank()
    return _number("LOCAL_RANK", "0")


def _of_launcher() -> Shard:
    if "RANK" in os.environ:  # torchrun goes first, as in Lightning: it can be used inside of SLURM
        rank, size = _number("RANK"), _number("WORLD_SIZE", "1")
        if not rank < size:
            raise InputError(f"the environment has RANK {rank} in a world of {size}; unset both, or start by torchrun")
        return Shard(rank, size, "torchrun")
    if _is_started_by_srun():
        slurm = SLURMEnvironment()
        return Shard(slurm.global_rank(), slurm.world_size(), "srun")
    return EVERYTHING


def _number(name: str, default: str = "") -> int:
    text = os.environ.get(name, default)
    if not text.isdecimal():
        raise InputError(f"the environment variable {name} is {text[:40]!r}, no number; unset it, or start by torchrun")
    return int(text)


def _is_started_by_srun() -> bool:
    return "SLURM_NTASKS" in os.environ and SLURMEnvironment.detect()  # SLURMEnvironment warns outside of a job
