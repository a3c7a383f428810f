"""Text from strangers on its way to a terminal, a report or a spreadsheet."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@")


def printable(text: str) -> str:
    """The text with control characters, turns of direction and lone surrogates written out.

    Example:
        >>> printable("a\\x1b[2Jb")
        'a\\\\x1b[2Jb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def csv_text(text: str) -> str:
    """A text for a cell of a csv file: printable, and led by an apostrophe where a spreadsheet would see a formula.

    Example:
        >>> csv_text("=1+1")
        "'=1+1"
    """
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
