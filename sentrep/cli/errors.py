"""One line for every error of the command line, and the file that keeps the traceback of an unexpected one."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from tempfile import NamedTemporaryFile

from sentrep.errors import InputError
from sentrep.io.paths import default_cache_dir
from sentrep.io.text import printable

LONGEST = 400
"""Characters of a message; the rest of a long one is a dump of values."""


class UsageError(InputError):
    """The command line or a configuration file is wrong; exit status 2 where other bad input gives 1."""


def report(error: Exception, debug: bool = False) -> int:
    """Print one line about an error on standard error, and return the exit status: 1, or 2 for wrong usage.

    An `InputError` is a sentence for the user. Any other error comes from a library or is a fault of the code: its
    traceback goes into a file, which the line names.

    Args:
        error: what ended the command.
        debug: also print the traceback.
    """
    if debug:
        traceback.print_exception(error)
    line = one_line(str(error))
    if not isinstance(error, InputError):
        named = f"{type(error).__name__}: {line}".removesuffix(": ")  # an error may have no text
        line = f"{own_place(error)}{named}; {keep_traceback(error)}"
    print(f"sentrep: error: {line}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def own_place(error: Exception) -> str:
    """File and line of the user's own code where an error arose, as the start of a message; empty for other errors."""
    here, package = Path.cwd(), Path(__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(here) and not (file.is_relative_to(package) or file.is_relative_to(sys.prefix)):
            return f"{file.relative_to(here)}, line {frame.lineno}: "
    return ""


def keep_traceback(error: Exception) -> str:
    """Write the traceback into the cache; returns the end of a sentence that names its place."""
    folder = default_cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", prefix="traceback-", suffix=".txt", dir=folder, delete=False) as file:
            traceback.print_exception(error, file=file)
    except OSError as refused:
        return f"no file for the traceback ({refused.strerror}); add --debug to see it"
    return f"the traceback is in {printable(file.name)}"


def one_line(message: str) -> str:
    """The message on one line, trimmed in the middle when it is very long.

    Examples:
        >>> one_line("a\\n    b")
        'a b'
    """
    if message.startswith("Caught "):  # by a DataLoader's worker, which sends its traceback along
        message = message.rsplit("InputError: ", 1)[-1]
    line = printable(" ".join(message.split()))
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"
