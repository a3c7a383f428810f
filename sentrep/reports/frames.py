"""A `pandas.DataFrame` on the screen, as Markdown, as CSV and as LaTeX; names from strangers stay text in each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table

from sentrep.reports.text import csv_text, latex_text, markdown_text, screen_text

_WORDS = ("bound", "check", "measured", "order", "protocol", "verdict", "value")
"""Columns that hold words beside the first one, which holds names; all others hold numbers."""
_MINUS = re.compile(r"(?<![\w-])-(?=\d)")


def as_frame(rows: Iterable[Mapping[str, Any] | Sequence[Any]], columns: Iterable[str] | None = None) -> pd.DataFrame:
    """A data frame that takes every cell as it is: no number becomes another, and a text may be half a pair.

    Args:
        rows: cells by column, or in the order of the columns.
        columns: their names; None for those of the rows, in the order in which they first occur.
    """
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row) if columns is None else columns)
    cells = [[row.get(name) for name in names] if isinstance(row, Mapping) else list(row) for row in rows]
    return pd.DataFrame(cells, columns=pd.Index(names, dtype=object), dtype=object)


def words(frame: pd.DataFrame) -> list[bool]:
    """Whether each column holds words, which stand to the left."""
    return [number == 0 or column in _WORDS for number, column in enumerate(frame.columns)]


def screen_table(frame: pd.DataFrame, closing: Sequence[str] = ()) -> Table:
    """A table without frame; words to the left and wrapped where space is short, numbers to the right and whole.

    Args:
        frame: of texts.
        closing: cells of a last row below a line, from the left.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=len(frame.columns) > 7)
    for number, (column, left) in enumerate(zip(frame.columns, words(frame), strict=True)):
        if left:
            table.add_column(screen_text(column), overflow="fold", min_width=len(column))
        else:
            least = max(map(len, (column, *frame.iloc[:, number])))
            table.add_column(screen_text(column), justify="right", no_wrap=True, min_width=least)
    for row in frame.itertuples(index=False, name=None):
        table.add_row(*map(screen_text, row))
    if closing:
        table.add_section()
        table.add_row(*map(screen_text, closing))
    return table


def markdown_table(frame: pd.DataFrame) -> str:
    """A table of Markdown; no cell leaves its place.

    Args:
        frame: of texts.
    """
    rule = ["---" if left else "---:" for left in words(frame)]
    shown = _escaped(frame, markdown_text)
    rows = [list(shown.columns), rule, *shown.itertuples(index=False, name=None)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def latex_table(frame: pd.DataFrame) -> str:
    """A tabular for the package booktabs: words to the left, numbers to the right.

    Args:
        frame: of texts.
    """
    shown = _escaped(frame, lambda text: _MINUS.sub("$-$", latex_text(text)))
    kinds = "".join("l" if left else "r" for left in words(frame))
    return shown.to_latex(index=False, escape=False, column_format=kinds)


def csv_table(frame: pd.DataFrame) -> str:
    """Rows as csv; what a row lacks is empty, and no text is a formula.

    Args:
        frame: of texts and numbers.
    """
    return _escaped(frame, csv_text).to_csv(index=False, lineterminator="\n")


def _escaped(frame: pd.DataFrame, form: Callable[[str], str]) -> pd.DataFrame:
    cells = frame.map(lambda cell: form(cell) if isinstance(cell, str) else cell)
    return cells.set_axis([form(column) for column in frame.columns], axis="columns")
