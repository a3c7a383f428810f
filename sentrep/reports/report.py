"""The result of a command: one table with notes, on the screen and as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from sentrep.errors import InputError
from sentrep.io.files import write_text
from sentrep.io.paths import check_target, expanded, writing
from sentrep.reports.document import Document, Heading, Picture, Table, Text
from sentrep.reports.frames import csv_table, latex_table, screen_table
from sentrep.reports.text import screen_text

_ENDINGS = (".json", ".md", ".csv")


@dataclass(frozen=True)
class Report:
    """A table with notes, in every form."""

    table: pd.DataFrame
    """Its cells are texts, for people."""
    closing: int = 0
    """The number of last rows below a line on the screen."""
    notes: Sequence[str] = ()
    """Notes for the reader, a sentence each."""
    about: Sequence[str] = ()
    """How the result was made, a sentence each; in files only."""
    rows: pd.DataFrame | None = None
    """The table with numbers, for CSV; None writes the table itself."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """All results, for JSON."""
    title: str = ""
    pictures: Sequence[Picture] = ()

    def print(self, console: Console | None = None) -> None:
        """Print the table, if it has rows, and a line for each note.

        Args:
            console: the terminal; None for standard output.
        """
        console = console or Console()
        if len(self.table):
            console.print(screen_table(self.table, self.closing))
        for note in self.notes:  # the terminal breaks the line, so that a path can be copied whole
            console.print(screen_text(note), soft_wrap=True, highlight=False)

    def text(self, ending: str) -> str:
        """The content of a file.

        Args:
            ending: ``.json`` (everything), ``.csv``, ``.tex``, ``.md`` or ``.html``.
        """
        if ending == ".json":
            return json.dumps(self.record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if ending == ".csv":
            return csv_table(self.table if self.rows is None else self.rows)
        if ending == ".tex":
            return latex_table(self.table)
        head = [Heading(self.title, level=1)] if self.title else []
        texts = map(Text, [*self.notes, *self.about])
        document = Document([*head, Table(self.table, self.title), *texts, *self.pictures], self.title)
        return document.html() if ending == ".html" else document.markdown()

    def write(self, path: str | Path) -> None:
        """Write it to a file, with the folders above; the ending chooses the format, see `text`.

        Raises:
            InputError: for a place that cannot be written.
        """
        path = Path(path)
        text = self.text(path.suffix)
        with writing(path):
            write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))  # lone surrogates, as in JSON


def check_report_path(path: str | Path, inputs: Iterable[str | Path] = (), overwrite: bool = True) -> None:
    """Check that `Report.write` can write the report, before hours of encoding.

    Args:
        path: of the report: ``.json``, ``.md`` or ``.csv``.
        inputs: files and folders that the command reads; the report must not replace them.
        overwrite: whether an older report may be replaced.

    Raises:
        InputError: for another ending, a place that cannot be written, or a report that may not be replaced.
    """
    check_target(path, inputs, overwrite=overwrite)
    place = Path(os.path.realpath(expanded(path)))
    for folder in map(expanded, inputs if place.exists() else ()):
        if folder.is_dir() and place.is_relative_to(os.path.realpath(folder)):
            raise InputError(f"{path}: lies in {folder}, which is read, and would be lost; choose another output")
    suffix = Path(path).suffix
    if suffix not in _ENDINGS:
        raise InputError(f"{path}: no format for the ending {suffix!r}; choose one of {', '.join(_ENDINGS)}")
