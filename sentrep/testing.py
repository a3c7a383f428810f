"""Helpers for the tests of a plug-in's author."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing import start_processes

__all__ = ["run_processes"]

# A server that has imported everything once, and of which every process is a fork: an import takes seconds.
_START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
multiprocessing.get_context(_START).set_forkserver_preload(["sentrep.module"])


def run_processes(function: Callable[..., Any], world: int, *arguments: Any) -> list[Any]:
    """Return the results of ``function(*arguments)`` on ``world`` processes of one gloo group, by rank.

    The processes run on the CPU of this machine.

    Args:
        function: a function of a module; it returns tensors and plain data.
        world: number of processes.
        arguments: picklable values.

    Raises:
        torch.multiprocessing.ProcessRaisedException: the error of the process that failed first.
        torch.multiprocessing.ProcessExitedException: the exit status of a process that ended without an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)  # the fork server has the environment of its start
        start_processes(_in_group, (environment, world, folder, function, arguments), world, start_method=_START)
        return [torch.load(f"{folder}/result{rank}.pt", weights_only=True) for rank in range(world)]


def _in_group(
    rank: int,
    environment: dict[str, str],
    world: int,
    folder: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ.clear()
    os.environ.update(environment, OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    faulthandler.enable()  # else a crash in gloo's or torch's own code leaves no trace
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    try:
        torch.save(function(*arguments), f"{folder}/result{rank}.pt")
    finally:
        dist.destroy_process_group()
