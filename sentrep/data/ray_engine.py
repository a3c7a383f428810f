"""The parts of a map as tasks of a Ray cluster: a worker on each device holds the model and writes its parts itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sentrep.data.parts import Parts
from sentrep.errors import InputError

_ANSWERS_WITHIN = 20
"""Seconds."""


class Worker:
    """The worker on one device of the cluster.

    Args:
        parts: where the results go, which every machine of the cluster must reach.
        load: returns the model; called once, in the first task, so that an error is an answer and not a lost worker.
        mapped: maps model and rows of a part to the stored result.
        folder: base of relative paths.
    """

    def __init__(
        self, parts: Parts, load: Callable[[], Any], mapped: Callable[[Any, list[Any]], Any], folder: str
    ) -> None:
        self._parts, self._load, self._mapped, self._folder = parts, load, mapped, folder
        self._model: Any = None

    def do(self, number: int, rows: list[Any]) -> int:
        """Map a part and write it; how many rows it has.

        Raises:
            InputError: the model cannot be loaded on this machine, or the part cannot be written from it.
        """
        os.chdir(self._folder)
        if self._model is None:
            self._model = self._load()
        self._parts.add(number, self._mapped(self._model, rows))
        return len(rows)


def map_on_ray(
    parts: Parts,
    rows: Iterable[Any],
    load: Callable[[], Any],
    mapped: Callable[[Any, list[Any]], Any],
    device: str | None,
) -> Iterator[int]:
    """Compute the missing parts on the cluster of ``RAY_ADDRESS`` or this machine, and yield the rows of each.

    Ray restarts a lost worker on a free device, and gives it the same part again.

    Args:
        parts: in a folder that all machines share.
        rows: of the whole text, read here.
        load: returns the model, on the worker.
        mapped: maps model and rows of a part to the stored result.
        device: ``cpu`` for a worker on every CPU; otherwise on every GPU, if the cluster has any.

    Raises:
        InputError: no cluster answers, a worker failed, or the folder differs between machines.
    """
    import ray
    from ray.exceptions import RayTaskError
    from ray.util import ActorPool

    _join_cluster()
    there = ray.cluster_resources()
    gpus = 0 if device == "cpu" else int(there.get("GPU", 0))
    worker = ray.remote(num_cpus=1, num_gpus=min(gpus, 1), max_restarts=-1, max_task_retries=-1)(Worker)
    count = min(gpus or int(there["CPU"]), parts.missing())
    pool = ActorPool([worker.remote(parts, load, mapped, os.getcwd()) for _ in range(count)])
    try:
        for number, some in parts.left(rows):
            if not pool.has_free():
                yield pool.get_next_unordered()
            pool.submit(lambda actor, part: actor.do.remote(*part), (number, some))
        while pool.has_next():
            while pool.pop_idle():
                pass  # its device is for a worker that has lost its own
            yield pool.get_next_unordered()
    except RayTaskError as error:
        raise error.cause from error
    if missing := parts.missing():
        raise InputError(
            f"{parts.folder}: {missing} parts that were written are not there; name a folder that all machines of the "
            "cluster share, or an address such as s3://bucket/folder"
        )


def _join_cluster() -> None:
    import ray

    address = os.environ.get("RAY_ADDRESS", "")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if port.isdecimal():  # Ray itself asks an address that is dead for minutes
            socket.create_connection((host, int(port)), timeout=_ANSWERS_WITHIN).close()
        ray.init(ignore_reinit_error=True, log_to_driver=False)
    except OSError as error:
        if not address:
            raise
        raise InputError(
            f"RAY_ADDRESS={address}: no Ray cluster answers there; start one (ray start --head), or leave the variable "
            "out to use this machine"
        ) from error
