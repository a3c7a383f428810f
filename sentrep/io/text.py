"""Untrusted text for a terminal, and for Markdown."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = re.compile(
    r"[`*\[\]|~$<>]|\\(?=[!-/:-@\[-`{-~])|(?<!\w)#|"
    r"(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|:(?=//)|(?<=www)\.|@(?!\d)|^\s*[-+=](?=\s)"
)


def printable(text: str) -> str:
    """Write out control characters, changes of the writing direction and lone surrogates.

    Examples:
        >>> printable("a\\x1b[2Jb")
        'a\\\\x1b[2Jb'
    """
    return _UNSEEN.sub(_written_out, text)


def markdown_text(text: str) -> str:
    """Escape a text for a line or a table cell of Markdown: no markup, HTML, formula, link or row.

    Examples:
        >>> markdown_text("<b>|[x](y)")
        '&#60;b&#62;&#124;&#91;x&#93;(y)'
    """
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0].strip())};", _UNSEEN.sub(_written_out, text))


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode()


def listing(texts: Mapping[str, str], width: int = 15) -> str:
    """List names with their texts, wrapped at words to the width of the terminal.

    Args:
        texts: by name.
        width: of the column of names.
    """
    columns = shutil.get_terminal_size().columns - 2
    return "\n".join(
        textwrap.fill(text, columns, initial_indent=f"  {name:<{width}}", subsequent_indent=" " * (width + 2))
        for name, text in texts.items()
    )
