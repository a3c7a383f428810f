"""One line for every error of the command line, and the file that keeps the traceback of an unexpected one."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pydoc import locate
from tempfile import NamedTemporaryFile
from typing import Any

from sentrep.config import walk
from sentrep.errors import InputError, did_you_mean
from sentrep.io.paths import default_cache_dir
from sentrep.io.text import printable

LONGEST = 400
"""Characters of a message; the rest of a long one is a dump of values."""


_FRAME = re.compile(
    r"[ -]*(Parser key|Does not validate|Subtypes:|Errors:|Given value|Problem with given|Subclass types|a class path"
    r"|a dict|Expected a path|Expected a <class '(NoneType|list)'>|$)"
)
"""Lines of jsonargparse's account that only lead to a complaint."""
_ROOMS = ("sentrep.", "lightning.pytorch.callbacks")
"""Packages whose public names are suggested for a misspelt class."""
_NOISE = re.compile(r"Type \S.* expects a function or a callable class: |\. Got value: Namespace\(.*")


class UsageError(InputError):
    """The command line or a configuration file is wrong; exit status 2 where other bad input gives 1."""


@contextmanager
def explained(tree: dict[str, Any], known: Iterable[str] = ()) -> Iterator[None]:
    """Shorten jsonargparse's account of a refused tree (`complaint`), and raise a class's own error as it is.

    Args:
        tree: the settings.
        known: the dotted keys of all sections.
    """
    try:
        yield
    except argparse.ArgumentError as error:
        raise UsageError(complaint(str(error), dict(walk(tree)), known)) from None
    except ValueError as error:
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, InputError):
            cause = cause.__cause__
        if cause is not error and str(cause).startswith("Not a valid subclass"):  # another branch of a union says more
            raise InputError(complaint(str(error), dict(walk(tree)), known)) from None
        raise cause from None


def complaint(account: str, values: dict[str, Any], known: Iterable[str] = ()) -> str:
    """The deepest line of jsonargparse's account, after its key and before a suggestion.

    Args:
        account: on many lines.
        values: of the configuration, by dotted keys.
        known: keys of all sections.

    Examples:
        >>> complaint('Parser key "data":\\n  Parser key "size":\\n    Expected a int. Got value: x', {"data.size": 1})
        'data.size: Expected a int. Got value: x'
    """
    lines = [line for line in _NOISE.sub("", account).splitlines() if not _FRAME.match(line)] or account.splitlines()
    depths = [len(line) - len(line.lstrip(" -")) for line in lines]
    said = [line.strip(" -") for line, depth in zip(lines, depths, strict=True) if depth == max(depths)]
    led_to = account.partition(said[0])[0] + said[0]
    names = re.findall(r"""(?:Parser key|class_path|[Oo]ption|path string:) ["']?([\w.]+)""", led_to) or [""]
    name = names[-1]
    places = [path for path, value in values.items() if f".{path}".endswith(f".{name}") or _named(value) == name]
    # a wrong value is part of the account, and tells the right one of several keys with this name
    place = min(places, key=lambda path: str(values[path]) not in said[0], default=name)
    if "ption '" in said[0]:
        return f"unknown key '{place}'{_other_key(name, names, values, places, known)}"
    hint = ""
    if "path string" in said[0]:
        loaded = [module for room, module in sys.modules.items() if room.startswith(_ROOMS)]
        hint = did_you_mean(name, [public for module in loaded for public in getattr(module, "__all__", ())])
    return f"{place}: {' or '.join(said)}{hint}"


def _other_key(name: str, names: list[str], values: dict[str, Any], places: list[str], known: Iterable[str]) -> str:
    """The suggestion for an unknown key: of the arguments of its class, of deeper keys, or of all sections."""
    owners = [found for found in map(locate, names) if isinstance(found, type)]
    if owners:
        return did_you_mean(name, inspect.signature(owners[-1]).parameters)
    deeper = [path for path in values if path.endswith(f".{name.rpartition('.')[2]}") and path not in places]
    return f"; did you mean '{deeper[0]}'?" if deeper else did_you_mean(name, known)


def _named(value: Any) -> Any:
    """The name of a plug-in's class, or another value itself."""
    return value.get("class_path") if isinstance(value, dict) else value


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
