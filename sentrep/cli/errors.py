"""Short errors for wrong usage: one sentence with the offending key, and the name that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from sentrep.errors import InputError

LONGEST = 400
"""Characters of a message; the rest of a long one is a dump of values that helps nobody."""


class UsageError(InputError):
    """The command line or a configuration file is wrong; exit status 2 where other bad input gives 1."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint to append to a message, empty when nothing is similar.

    Example:
        >>> did_you_mean("temprature", ["temperature", "negatives"])
        "; did you mean 'temperature'?"
        >>> did_you_mean("xyz", ["temperature", "negatives"])
        ''
    """
    by_lower_case = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.6)
    return f"; did you mean '{by_lower_case[close[0]]}'?" if close else ""


def one_line(message: str) -> str:
    """The message on one line, trimmed in the middle when it is very long.

    Example:
        >>> one_line("a\\n    b")
        'a b'
    """
    line = " ".join(message.split())
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"


def summarize(message: str) -> str:
    """What is wrong, out of jsonargparse's nested explanation of why no alternative of a union fits.

    The deepest alternative that got furthest is the one that was meant: its key, the expected type and the value.

    Example:
        >>> summarize('Parser key "data.batch_size":\\n  Expected a <class \\'int\\'>. Got value: x')
        "data.batch_size: expected int, got 'x'"
    """
    deepest, keys, found = -1, [], ""
    chain: list[tuple[int, str]] = []
    for line in message.splitlines():
        indent = len(line) - len(line.lstrip(" -"))
        if key := re.search(r'Parser key "([^"]+)":', line):
            chain = [(depth, name) for depth, name in chain if depth < indent] + [(indent, key[1])]
        expected = re.search(r"Expected (?:an? )?(.+?)\. Got value: (.*)", line)
        subtypes = re.search(r"Subtypes: \[(.*)\]", line)
        if (expected or subtypes) and len(chain) >= len(keys) and indent > deepest:
            deepest, keys = indent, [name for depth, name in chain if depth < indent or not depth]
            found = f"expected {_types(expected[1])}, got {expected[2]!r}" if expected else ""
            if subtypes:
                found = f"expected one of {_types(subtypes[1])}" + _given(message, indent)
    if found:
        return f"{'.'.join(key for key in keys if key != 'config')}: {found}"
    return one_line(message)


def _types(text: str) -> str:
    text = re.sub(r"<class '(?:[\w]+\.)*(\w+)'>", r"\1", text)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "null")


def _given(message: str, indent: int) -> str:
    value = re.search(rf"^ {{{indent}}}Given value: (.*)$", message, re.MULTILINE)
    return f", got {value[1]!r}" if value else ""
