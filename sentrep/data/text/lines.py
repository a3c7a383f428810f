"""Lines of text, of which none is longer than a limit: a file of one line must not fill the memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sentrep.data.text.cells import text_cell
from sentrep.io.paths import check_plain

LONGEST_LINE = 1_000_000
"""Characters of a line, or of a cell of a table, that are read; what follows is left out and counted."""


class LineLimit:
    """Cuts what is longer than the limit, and counts it.

    Args:
        longest: characters.

    Examples:
        >>> limit = LineLimit(3)
        >>> limit("abcde"), limit("abc"), limit.cut
        ('abc', 'abc', 1)
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest, self.cut = longest, 0

    def __call__(self, text: str) -> str:
        """The text, or its beginning."""
        if len(text) <= self.longest:
            return text
        self.cut += 1
        return text[: self.longest]


def read_lines(stream: BinaryIO, longest: int, newline: str | None = None) -> Iterator[str]:
    """Lines with their ends; of one that is too long the first ``longest + 1`` characters, so that it can be told.

    The rest of such a line is skipped piece by piece and is never in memory at once.

    Args:
        stream: UTF-8, with or without a byte order mark; bytes that are not UTF-8 are let through to `text_cell`, which
            knows the line they are on.
        longest: characters of a line, without its end.
        newline: of `open`; None: a line ends at LF, CR LF or CR, each of which becomes LF.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline=newline)
    for line in iter(partial(text.readline, longest + 1), ""):
        yield line
        while len(line) > longest and not line.endswith(("\n", "\r")):
            line = text.readline(longest + 1)


def lines_of(path: str | Path, limit: LineLimit) -> list[str]:
    """The lines of a plain text file, without their ends.

    Raises:
        InputError: it is no plain file, or no UTF-8 text.
    """
    check_plain(path)
    with open(path, "rb") as file:
        rows = enumerate(read_lines(file, limit.longest), start=1)
        return [limit(text_cell(line.removesuffix("\n"), f"{path}, line {row}")) for row, line in rows]
