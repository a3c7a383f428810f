"""The one exception for input that the user can correct, and the suggestion for a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input from the user: a file, a line, a key or a value.

    The message is one clear sentence that names the problem, its place and the remedy. The command line prints
    the message alone (no traceback) and exits with status 1.

    Examples:
        >>> raise InputError("corpus.csv, line 7: 2 columns where the header has 3; quote the comma or fix the row")
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: corpus.csv, line 7: 2 columns where the header has 3; quote the comma or fix the row
    """


def first_line(error: Exception) -> str:
    """The line of an error's text that names the cause; the error's class where it has no text.

    Examples:
        >>> first_line(OSError("no connection\\nsee the log")), first_line(EOFError())
        ('no connection', 'EOFError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0][:250]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint to append to a message, empty when nothing is similar.

    Examples:
        >>> did_you_mean("temprature", ["temperature", "negatives"])
        "; did you mean 'temperature'?"
        >>> did_you_mean("xyz", ["temperature", "negatives"])
        ''
    """
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f"; did you mean '{by_lower_case[close[0]]}'?" if close else ""
