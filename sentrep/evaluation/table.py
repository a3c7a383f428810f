"""A data frame on the terminal, and a report of it as a file of JSON, CSV, LaTeX or Markdown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sentrep.io.files import write_text
from sentrep.io.paths import writing
from sentrep.io.text import markdown_text, printable


def show(frame: pd.DataFrame, notes: Sequence[str] = (), console: Console | None = None) -> None:
    """Print a table, if it has rows, and a line for each note.

    Args:
        frame: of texts.
        notes: a sentence each.
        console: the terminal; None for standard output.
    """
    console = console or Console()
    if len(frame):
        console.print(_rich_table(_with_texts(frame, printable), box.SIMPLE_HEAD))
    for note in notes:  # the terminal breaks the line, so that a path can be copied whole
        console.print(printable(note), soft_wrap=True, markup=False, highlight=False)


def report_text(
    ending: str, frame: pd.DataFrame, numbers: pd.DataFrame, record: Mapping[str, Any], notes: Sequence[str] = ()
) -> str:
    """The content of a file with a report.

    Args:
        ending: ``.json`` writes the record, ``.csv`` the numbers, ``.tex`` the table, and ``.md`` the table and notes.
        frame: the table for people; its cells are texts.
        numbers: the table for programs.
        record: everything.
        notes: a paragraph each.
    """
    if ending == ".json":
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if ending == ".csv":
        return _with_texts(numbers, printable).to_csv(index=False, lineterminator="\n")
    if ending == ".tex":
        return _with_texts(frame, printable).to_latex(
            index=False, escape=True, column_format="l" + "r" * (frame.shape[1] - 1)
        )
    console = Console(file=io.StringIO(), width=100_000, color_system=None)  # pandas would need tabulate
    console.print(_rich_table(_with_texts(frame, markdown_text), box.MARKDOWN))
    table = console.file.getvalue().strip()  # type: ignore[attr-defined]
    return "\n\n".join([table, *map(markdown_text, notes)]) + "\n"


def write_report(path: str | Path, text: str) -> None:
    """Write a report, and the folders above it; lone surrogates are written as in JSON.

    Raises:
        InputError: for a place that cannot be written.
    """
    with writing(Path(path)):
        write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _rich_table(frame: pd.DataFrame, look: box.Box) -> Table:
    """The table, with numbers to the right."""
    table = Table(box=look, pad_edge=look is box.MARKDOWN)
    for name in frame.columns:
        numbers = frame[name].str.match(r"$|[-+]?\d|—").all()
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in frame.itertuples(index=False, name=None):
        table.add_row(*map(Text, row))
    return table


def _with_texts(frame: pd.DataFrame, form: Callable[[str], str]) -> pd.DataFrame:
    cells = frame.map(lambda cell: form(cell) if isinstance(cell, str) else cell)
    return cells.set_axis(list(map(form, frame.columns)), axis="columns")
