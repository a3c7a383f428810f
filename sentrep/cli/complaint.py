"""jsonargparse's account of a wrong configuration as one line: its innermost complaint, the place and a suggestion."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pydoc import locate
from typing import Any

from jsonargparse import ArgumentError

import sentrep.negatives
import sentrep.objectives
import sentrep.views
import sentrep.weighting
from sentrep.cli.errors import UsageError
from sentrep.config import walk
from sentrep.errors import did_you_mean

_FRAME = re.compile(
    r"[ -]*(Parser key|Does not validate|Subtypes:|Errors:|Given value|Problem with given|Subclass types|a class path"
    r"|a dict|$)"
)
"""Lines that lead to a complaint."""
_NOISE = re.compile(r"Type \S.* expects a function or a callable class: |Subcommand '\w+' |\. Got value: Namespace\(.*")
_EXPECTED = re.compile(r"Expected an? (?!dot import)")
_TYPE = re.compile(r"<class '(?:\w+\.)*(\w+)'>|\b(?:[a-z_]\w*\.)+(?=[A-Z])")
_PLUGINS = (sentrep.objectives, sentrep.negatives, sentrep.views, sentrep.weighting)


@contextmanager
def shortened(tree: Any, known: Iterable[str]) -> Iterator[None]:
    """Turn jsonargparse's refusal of a tree into a `UsageError`; ``known`` are the dotted keys of all sections."""
    try:
        yield
    except ArgumentError as error:
        raise UsageError(innermost(str(error), dict(walk(tree)), known)) from None


def innermost(account: str, values: dict[str, Any], known: Iterable[str] = ()) -> str:
    """Return the innermost line of an account, after its key and before a suggestion.

    Args:
        account: of jsonargparse, on many lines.
        values: of the configuration, by dotted keys.
        known: keys of all sections.

    Examples:
        >>> innermost('Parser key "data":\\n  Parser key "size":\\n    Expected a int. Got value: x', {"data.size": 1})
        'data.size: Expected a int. Got value: x'
    """
    lines = [line for line in _NOISE.sub("", account).splitlines() if not _FRAME.match(line)] or account.splitlines()
    deepest = max(map(_depth, lines))
    complaints = [line.strip(" -") for line in lines if _depth(line) == deepest]
    complaint = complaints[0]
    if _EXPECTED.match(complaint):
        complaint = " or ".join([complaint, *(_EXPECTED.sub("", other) for other in complaints[1:])])
    before = account.partition(complaints[0])[0]
    behind = account.removeprefix(before).partition("\n")[0]
    keys = re.findall(r'Parser key "([^"]+)"', before)
    classes = re.findall(r"class_path[= ]'([\w.]+)'", before + behind)
    unknown, missing = re.search(r"ption '([^']+)'", complaint), re.search(r"import path string: (.*)", complaint)
    key = unknown[1] if unknown else keys[-1] if keys else ""
    wrong = missing[1] if missing else complaint.partition("Got value: ")[2]
    places = [path for path in values if f".{path}".endswith(f".{key}")] if key else []
    names = [path for path, value in values.items() if wrong and str(_class_or(value)) == wrong]
    place = next(iter(names if names and not unknown else places), key)
    last = key.rpartition(".")[2]
    hint = ""
    if missing:
        hint = did_you_mean(wrong, [name for room in _PLUGINS for name in room.__all__])
    elif unknown and classes:
        hint = did_you_mean(key, inspect.signature(locate(classes[-1])).parameters)  # type: ignore[arg-type]
    elif unknown:
        elsewhere = [path for path in values if path.rpartition(".")[2] == last and path != key]
        hint = f"; did you mean '{elsewhere[0]}'?" if elsewhere else did_you_mean(key, known)
    said = f"unknown key '{place}'" if unknown else _TYPE.sub(r"\1", complaint)
    return f"{said}{hint}" if unknown or not place else f"{place}: {said}{hint}"


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))


def _class_or(value: Any) -> Any:
    return value.get("class_path") if isinstance(value, dict) else value
