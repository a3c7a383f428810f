"""Shared by the commands that map a text row by row: the bar, and the loop over the missing parts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.progress import Progress

from sentrep.data.parts import Parts
from sentrep.data.ray_engine import map_on_ray
from sentrep.data.shard import Shard, local_rank
from sentrep.io.bars import progress_bar

Advance = Callable[[int], None]
"""Is told of so many more rows."""
Mapped = Callable[..., Any]
"""Maps the rows of a part to the stored result; the keyword ``advance`` moves the bar."""


def row_progress() -> Progress:
    """On standard error: rows done, time left, and ``note``, a field of the task; of several processes the first's."""
    return progress_bar(Console(stderr=True), disable=local_rank() != 0)


def map_parts(what: str, parts: Parts, rows: Iterable[Any], mapped: Mapped, shard: Shard) -> bool:
    """Do a shard's parts that are not there yet, in this process; whether all are there now, or it says which lack."""
    with row_progress() as progress:
        task = progress.add_task(what, total=parts.rows, note="")
        for number, some in parts.left(rows, shard):
            progress.update(task, completed=number * parts.size)
            parts.add(number, mapped(some, advance=lambda count: progress.advance(task, count)))
        progress.update(task, completed=parts.rows)
    if missing := parts.missing():
        print(f"{shard} is done; {missing} of {len(parts.names)} parts are left to other processes", file=sys.stderr)
    return not missing


def map_parts_on_ray(
    parts: Parts,
    rows: Iterable[Any],
    load: Callable[[], Any],
    mapped: Callable[[Any, list[Any]], Any],
    device: str | None,
) -> None:
    """`map_on_ray` with the bar."""
    with row_progress() as progress:
        task = progress.add_task("On Ray", total=min(parts.rows, parts.missing() * parts.size), note="")
        for count in map_on_ray(parts, rows, load, mapped, device):
            progress.advance(task, count)
