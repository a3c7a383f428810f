"""Short errors for wrong usage: one sentence with the offending key, and the name that was probably meant."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from sentrep.config import walk
from sentrep.errors import InputError
from sentrep.io.paths import remedy
from sentrep.reports.text import printable

_LIBRARIES = {"lightning", "jsonargparse", "torch", "tensorboard"}
LONGEST = 400
"""Characters of a message; the rest of a long one is a dump of values that helps nobody."""


class UsageError(InputError):
    """The command line or a configuration file is wrong; exit status 2 where other bad input gives 1."""


def of_the_machine(error: BaseException) -> str | None:
    """The sentence for what the machine refuses: the disk, the memory, the rights; None for other errors.

    Examples:
        >>> of_the_machine(OSError(28, "No space left on device", "vectors.npy"))
        'vectors.npy: No space left on device; make room, or name a place on another disk'
    """
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        place = f"{error.filename}: " if error.filename is not None else ""
        return place + what + (f"; {hint}" if (hint := remedy(error)) else "; check the path and its rights")
    if isinstance(error, RecursionError):
        return f"the input is nested too deeply ({error}); flatten the file that was read last"
    text = str(error).split("\n")[0][:200]
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text:
        return f"the memory does not suffice ({text or 'out of memory'}); lower the batch size, or read less at a time"
    return None


def of_settings(error: BaseException) -> bool:
    """Whether Lightning, or what it calls, stumbled over a value that it took from the configuration unseen.

    So it is where the last step from the command to the error is Lightning's and no code of others is on the way: an
    error within a class of the user, or in a room of sentrep, is a fault of the code, and its traceback is needed.
    """
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    rooms = ["sentrep.cli" if name.startswith("sentrep.cli.") else name.split(".")[0] for name in modules]
    below = set(takewhile(lambda room: room != "sentrep.cli", reversed(rooms)))
    return "lightning" in below and {"sentrep.cli", *_LIBRARIES, *sys.stdlib_module_names}.issuperset(rooms)


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


def summarize(message: str, tree: Mapping[str, Any]) -> str:
    """What is wrong, out of jsonargparse's nested account of why no alternative of a union fits.

    The alternative that got furthest, with the longest chain of keys, is the one that was meant. The configuration
    (``tree``) has the whole path of the offending value.

    Examples:
        >>> text = 'Parser key "data":\\n  Parser key "size":\\n    Expected a <class \\'int\\'>. Got value: x'
        >>> summarize(text, {"data": {"other": {"size": "x"}}})
        "data.other.size: expected int, got 'x'"
    """
    found: list[tuple[int, int, list[str], str, str]] = []
    chain: list[tuple[int, str]] = []
    for line in filter(str.strip, message.splitlines()):
        indent = len(line) - len(line.lstrip(" -"))
        chain = [(depth, key) for depth, key in chain if depth < indent]
        if key := re.search(r'Parser key "([^"]+)":', line):
            chain.append((indent, key[1]))
        keys = [key for _, key in chain if key != "config"]
        if one := re.search(r"Expected (?:an? )?(.+?)\. Got value: (.*)", line):
            found.append((-len(keys), indent, keys, f"expected {_types(one[1])}", one[2]))
        elif many := re.search(r"Subtypes: \[(.*)\]", line):
            given = re.search(rf"^ {{{indent}}}Given value: (.*)$", message, re.MULTILINE)
            expected = f"expected {_types(many[1]).replace(', ', ' or ')}"
            found.append((-len(keys), indent, keys, expected, given[1] if given else "something else"))
    if not found:
        return message
    *_, keys, expected, value = min(found)
    path = _find(tree, keys[-1].rsplit(".", 1)[-1], value) if keys else None
    return f"{path or '.'.join(keys)}: {expected}, got '{value}'"


def _find(tree: Mapping[str, Any], key: str, value: str) -> str | None:
    """Dotted path of the first ``key: value`` in the tree, as on the command line."""
    found = (path for path, here in walk(tree) if path.rpartition(".")[2] == key and str(here) == value)
    return next(found, None)


def _types(text: str) -> str:
    text = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)
    return re.sub(r"\b(?:[a-zA-Z_]\w*\.)+(\w+)", r"\1", text).replace("NoneType", "null")
