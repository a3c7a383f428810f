"""Several processes of one gloo group on this machine."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

_PATIENCE = 300
# A server that has imported everything once, and of which every process is a fork: an import takes seconds.
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_CONTEXT: Any = multiprocessing.get_context("forkserver" if _FORKS else "spawn")
_CONTEXT.set_forkserver_preload(["sentrep.module"])


def run_processes(function: Callable[..., Any], world: int, *arguments: Any) -> list[Any]:
    """What ``function(*arguments)`` returns on each of ``world`` processes of one gloo group, by rank.

    Args:
        function: of a module; it returns tensors and plain data.
        world: number of processes.
        arguments: what can be pickled.

    Raises:
        RuntimeError: when a process failed, or did not end; it says of each how it ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)  # the server has that of the time when it was started
        processes = [
            _CONTEXT.Process(target=_in_group, args=(environment, rank, world, folder, function, arguments))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=_PATIENCE)
        ends = [process.exitcode for process in processes]
        for process in processes:
            if process.exitcode != 0:
                process.kill()
        if any(code != 0 for code in ends):  # whoever was killed says nothing, and the others that they lost him
            raise RuntimeError("; ".join(f"process {rank} {_end(code)}" for rank, code in enumerate(ends)))
        return [torch.load(f"{folder}/result{rank}.pt", weights_only=True) for rank in range(world)]


def _end(code: int | None) -> str:
    if code is None:
        return f"did not end within {_PATIENCE} s"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _in_group(
    environment: dict[str, str],
    rank: int,
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
