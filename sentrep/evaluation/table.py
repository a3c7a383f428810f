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

from sentrep.io.files import atomic_write
from sentrep.io.paths import writing
from sentrep.io.text import markdown_text, printable

_NUMBERS = r"[-+—±\d.,%e\[\]* ]*"


def show(frame: pd.DataFrame, notes: Sequence[str] = (), console: Console | None = None) -> None:
    """Print a table, if it has rows, and a line for each note.

    Args:
        frame: of texts.
        notes: a sentence each.
        console: the terminal; None for standard output.
    """
    console = console or Console()
    if len(frame):
        console.print(_rich_table(_escaped(frame), box.SIMPLE_HEAD))
    for note in notes:  # the terminal breaks the line, so that a path can be copied whole
        console.print(printable(note), soft_wrap=True, markup=False, highlight=False)


def write_report(
    path: Path,
    frame: pd.DataFrame,
    numbers: pd.DataFrame,
    record: Mapping[str, Any],
    notes: Sequence[str],
    title: str = "",
    picture: str = "",
) -> None:
    """Write a report, and the folders above it; lone surrogates are written as in JSON.

    Args:
        path: ``.json`` writes the record, ``.csv`` the numbers, ``.tex`` the table, and ``.md`` the table and the rest.
        frame: the table for people; its cells are texts.
        numbers: the table for programs.
        record: everything.
        notes: a paragraph each.
        title: a heading.
        picture: a file beside the report.

    Raises:
        InputError: for a place that cannot be written.
    """
    if path.suffix == ".json":
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    elif path.suffix == ".csv":
        text = "\n".join(map(printable, numbers.to_csv(index=False, lineterminator="\n").split("\n")))
    elif path.suffix == ".tex":
        alignment = "l" + "r" * (frame.shape[1] - 1)
        text = _escaped(frame).to_latex(index=False, escape=True, column_format=alignment)
    else:
        head, end = [f"# {markdown_text(title)}"] * bool(title), [f"![]({picture})"] * bool(picture)
        text = "\n\n".join([*head, markdown_table(frame), *map(markdown_text, notes), *end])
    with writing(path), atomic_write(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text.rstrip("\n") + "\n")


def markdown_table(frame: pd.DataFrame) -> str:
    """A data frame of texts as a table of Markdown."""
    console = Console(file=io.StringIO(), width=100_000, color_system=None)  # pandas would need tabulate
    console.print(_rich_table(_escaped(frame, markdown_text), box.MARKDOWN))
    return console.file.getvalue().strip()  # type: ignore[attr-defined]


def _rich_table(frame: pd.DataFrame, look: box.Box) -> Table:
    """The table, with numbers to the right."""
    table = Table(box=look, pad_edge=look is box.MARKDOWN)
    for name in frame.columns:
        numbers = frame[name].str.match(r"$|[-+]?\d|—").all()
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in frame.itertuples(index=False, name=None):
        table.add_row(*map(Text, row))
    return table


def _escaped(frame: pd.DataFrame, form: Callable[[str], str] = printable) -> pd.DataFrame:
    """The frame with its words in this form; numbers are harmless as they are, and so are most words on a terminal."""
    whole = "".join([*frame.columns, *frame.to_numpy().flat])
    if form is printable and printable(whole) == whole:
        return frame
    words = [name for name in frame.columns if not frame[name].str.fullmatch(_NUMBERS).all()]
    return frame.assign(**{name: frame[name].map(form) for name in words}).rename(columns=form)
