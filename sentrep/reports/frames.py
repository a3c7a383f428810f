"""A `pandas.DataFrame` on the screen, as Markdown, CSV and LaTeX; untrusted names stay plain text in each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table

from sentrep.reports.text import csv_text, latex_text, markdown_text, screen_text

_WORDS = ("bound", "check", "measured", "order", "protocol", "verdict", "value")
"""Columns that hold words beside the first one, which holds names; all others hold numbers."""
_LEAST_IMPORTANT = ("protocol", "order", "p", "published difference", "seeds", "pairs")
"""Columns that a narrow terminal loses first; the last ones follow."""
_MANY = 7
"""A table with more columns has narrower gaps."""
_LONGEST_WORD = 8
"""A longer word may be broken."""
Forms = Sequence[Sequence[str]]
"""How a column of text is made of columns of numbers; see `as_text`."""
_MINUS = re.compile(r"(?<![\w-])-(?=\d)")


def as_frame(rows: Iterable[Mapping[str, Any] | Sequence[Any]], columns: Iterable[str] | None = None) -> pd.DataFrame:
    """A data frame of objects, which keeps every cell as it is: numbers keep their type, a text may be any string.

    Args:
        rows: cells by column, or in the order of the columns.
        columns: their names; None for the names in the rows, in the order of their first occurrence.
    """
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row) if columns is None else columns)
    cells = [[row.get(name) for name in names] if isinstance(row, Mapping) else list(row) for row in rows]
    return pd.DataFrame(cells, columns=pd.Index(names, dtype=object), dtype=object)


def as_text(numbers: pd.DataFrame, columns: Mapping[str, Forms]) -> pd.DataFrame:
    """Format a table of numbers for readers.

    Args:
        numbers: the table; unknown numbers are missing values.
        columns: the forms of each column to show, by its name. A form is a template of `str.format` and the columns
            that fill it. The first form whose numbers are all known gives the cell; without one the cell is empty.

    Examples:
        >>> scores = pd.DataFrame({"name": ["a", "b"], "mean": [81.234, 70], "mean sd": [0.5, None]})
        >>> as_text(scores, {"name": [("{}", "name")], "score": mean_and_sd("mean")}).to_dict("list")
        {'name': ['a', 'b'], 'score': ['81.23 ± 0.50', '70.00']}
    """

    def cell(row: Mapping[str, Any], forms: Forms) -> str:
        known = (
            template.format(*(row[name] for name in names))
            for template, *names in forms
            if not any(pd.isna(row[name]) for name in names)
        )
        return next(known, "")

    rows = numbers.to_dict("records")
    return as_frame(([cell(row, forms) for forms in columns.values()] for row in rows), columns)


def mean_and_sd(name: str) -> Forms:
    """The forms of a mean with its standard deviation, the column ``<name> sd``."""
    return (("{:.2f} ± {:.2f}", name, f"{name} sd"), ("{:.2f}", name))


def words(frame: pd.DataFrame) -> list[bool]:
    """Whether each column holds words, which are aligned left."""
    return [number == 0 or column in _WORDS for number, column in enumerate(frame.columns)]


def screen_table(frame: pd.DataFrame, closing: int = 0) -> Table:
    """A table without a frame that fits the terminal: words left and wrapped, numbers right and never cut.

    A narrow terminal shows fewer columns: the least important ones are left out first.

    Args:
        frame: of texts.
        closing: the number of last rows below a line.
    """
    widths = _least_widths(frame)
    for name in [*_LEAST_IMPORTANT, *frame.columns[:0:-1]]:
        gap = 2 if len(widths) > _MANY else 3
        if sum(widths.values()) + gap * (len(widths) - 1) + 2 <= shutil.get_terminal_size().columns:
            break
        widths.pop(name, None)
    frame = frame[list(widths)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=len(widths) > _MANY)
    for column, left in zip(frame.columns, words(frame), strict=True):
        name, width = screen_text(column), widths[column]
        if left:
            table.add_column(name, overflow="fold", min_width=width)
        else:
            table.add_column(name, justify="right", no_wrap=True, min_width=width)
    for number, row in enumerate(frame.itertuples(index=False, name=None)):
        if number == len(frame) - closing:
            table.add_section()
        table.add_row(*map(screen_text, row))
    return table


def _least_widths(frame: pd.DataFrame) -> dict[str, int]:
    """The letters that each column needs: for the longest word, which may be broken, or for the longest number."""
    texts = {column: [column, *frame[column]] for column in frame.columns}
    return {
        column: min(max(map(len, " ".join(texts[column]).split())), _LONGEST_WORD)
        if left
        else max(map(len, texts[column]))
        for column, left in zip(frame.columns, words(frame), strict=True)
    }


def markdown_table(frame: pd.DataFrame) -> str:
    """A table of Markdown, with every cell escaped.

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
    """Rows as csv; missing cells are empty, and no text is a formula.

    Args:
        frame: of texts and numbers.
    """
    return _escaped(frame, csv_text).to_csv(index=False, lineterminator="\n")


def _escaped(frame: pd.DataFrame, form: Callable[[str], str]) -> pd.DataFrame:
    cells = frame.map(lambda cell: form(cell) if isinstance(cell, str) else cell)
    return cells.set_axis([form(column) for column in frame.columns], axis="columns")
