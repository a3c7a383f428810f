"""The progress bar of every command on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

_WIDE = 60
"""From this many columns of a terminal on, the bar also shows the count and the elapsed time."""


def progress_bar(console: Console, **options: Any) -> Progress:
    """A bar with the progress, the time left, and ``note``, a field of the task, which wraps if it is long.

    Args:
        console: the terminal.
        options: of `rich.progress.Progress`.
    """
    counted = [MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left")] if console.width >= _WIDE else []
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(None),
        *counted,
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False, table_column=Column()),
        console=console,
        **options,
    )
