"""Untrusted text for a terminal, and for Markdown."""

from __future__ import annotations

import re

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Write out control characters, changes of the writing direction and lone surrogates.

    Examples:
        >>> printable("a\\x1b[2Jb")
        'a\\\\x1b[2Jb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def markdown_text(text: str) -> str:
    """Escape a text for a line or a table cell of Markdown: no HTML, and no further cell or row.

    Examples:
        >>> markdown_text("<b>|")
        '\\\\<b>\\\\|'
    """
    return re.sub(r"[\\|<]", r"\\\g<0>", printable(text))
