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
        """From ``"0/4"``, or else from torchrun's environment, or srun's, or else everything.

        Raises:
            InputError: the text, or the environment, is not I/N with 0 ≤ I < N.
        """
        found, origin = _launched() if text is None else (text, "--shard")
        index, _, count = found.partition("/")
        if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise InputError(
                f"shard {found!r} ({origin}): expected I/N, the shard's number from 0 and how many, for example 0/4; "
                "without --shard these are the environment variables RANK and WORLD_SIZE"
            )
        return Shard(int(index), int(count), origin)

    def __str__(self) -> str:
        return f"shard {self.index} of {self.count}"


EVERYTHING = Shard(0, 1, "default")


def local_rank() -> int:
    """The rank of this process on its machine, which is the number of its GPU; 0 without a launcher."""
    if "LOCAL_RANK" not in os.environ and _in_srun():
        return int(os.environ.get("SLURM_LOCALID", "0"))
    return int(os.environ.get("LOCAL_RANK", "0"))


def _launched() -> tuple[str, str]:
    """I/N of this process, and what started it."""
    if "RANK" in os.environ:  # torchrun goes first, as in Lightning: it can be used inside of SLURM
        return f"{os.environ['RANK']}/{os.environ.get('WORLD_SIZE', '1')}", "torchrun"
    if _in_srun():
        return f"{os.environ.get('SLURM_PROCID', '')}/{os.environ['SLURM_NTASKS']}", "srun"
    return "0/1", "default"


def _in_srun() -> bool:
    """Whether srun has started this process, by the rule of Lightning's `SLURMEnvironment.detect`.

    The constructor of `SLURMEnvironment` refuses ``srun -n 4``: training needs to know how many tasks a node has.
    """
    return "SLURM_NTASKS" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive")
