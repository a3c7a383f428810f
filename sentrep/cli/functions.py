"""Commands that are plain functions: their signature is the command line, their docstring the help."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, set_parsing_settings

from sentrep.cli.errors import UsageError, summarize
from sentrep.errors import did_you_mean

_NUMBERS = (list[int], list[int] | None)


def search_current_folder() -> None:
    """Let classes be found in the user's own files: ``class_path: my_objective.MyObjective``."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def run_function(function: Callable[..., Any], command: str, words: list[str]) -> Any:
    """Call a function with arguments from the command line.

    Parameters without a default are positional, those behind ``*`` are options. ``--base-url`` is ``--base_url``. An
    option that takes a list of words or numbers takes them as ``[a,b]`` or one after the other, as does the first
    positional. The fields of a dataclass are options of their own, ``--generation.beams``.

    Args:
        function: with type hints and a Google-style docstring.
        command: its name on the command line.
        words: what stands behind the name.

    Returns:
        What the function returns.

    Raises:
        UsageError: for words that do not fit the signature.
    """
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(
        prog=f"sentrep {command}",
        description=inspect.getdoc(function).split("\n\n")[0],  # type: ignore[union-attr]
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_function_arguments(function, as_positional=True)
    try:
        settings = parser.parse_args(_with_lists(function, [_with_underscores(word) for word in words]))
    except argparse.ArgumentError as error:
        message = str(error)
        unknown = re.search(r"unrecognized arguments: (?:--)?([\w.-]+)", message)
        hint = _meant(unknown[1], function) if unknown else ""
        raise UsageError(f"{command}: {summarize(message, {})}{hint}") from None
    arguments, groups = settings.as_dict(), _groups(function)
    return function(**arguments | {name: group(**arguments[name]) for name, group in groups.items()})


def _groups(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters that are dataclasses."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return {item.name: item.annotation for item in parameters if dataclasses.is_dataclass(item.annotation)}


def _meant(word: str, function: Callable[..., Any]) -> str:
    """The name that was probably meant, with its group."""
    names = {name: name for name in inspect.signature(function).parameters}
    for group, kind in _groups(function).items():
        for field in dataclasses.fields(kind):
            names |= dict.fromkeys((f"{group}.{field.name}", field.name), f"{group}.{field.name}")
    hint = did_you_mean(word, names)
    return hint and hint.replace(meant := hint.split("'")[1], names[meant])


def run_one_of(functions: Mapping[str, Callable[..., Any]], command: str, words: list[str]) -> Any:
    """Call the function that the first word names, see `run_function`; without one, print what there is.

    Raises:
        UsageError: there is no function of that name.
    """
    if not words or words[0] in ("-h", "--help"):
        lines = [f"  {name:<12}{_summary(function)}" for name, function in functions.items()]
        print("\n".join([f"usage: sentrep {command} KIND [options]", "", *lines]))
        return None
    kind, *rest = words
    if kind not in functions:
        hint = did_you_mean(kind, functions) or f"; there are {', '.join(functions)}"
        raise UsageError(f"{command}: no '{kind}'{hint}")
    return run_function(functions[kind], f"{command} {kind}", rest)


def _summary(function: Callable[..., Any]) -> str:
    return str(inspect.getdoc(function)).split("\n")[0]


def _with_lists(function: Callable[..., Any], words: list[str]) -> list[str]:
    """Words behind one another that are the elements of one list, as the one word that jsonargparse expects."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    lists = {f"--{item.name}" for item in parameters if _is_list(item.annotation)}
    numbers = {f"--{item.name}" for item in parameters if item.annotation in _NUMBERS}
    first = next(iter(parameters), None)
    if first is not None and first.kind is not first.KEYWORD_ONLY and _is_list(first.annotation):
        lists.add("")
    joined: list[str] = []
    option, open_list = "", False
    for word in words:
        if word.startswith("--"):
            option, open_list = word, False
            joined.append(word)
        elif option in lists - numbers and re.fullmatch(
            r"\[\s*\d+\s*(,\s*\d+\s*)*\]", word
        ):  # positions of columns are words too
            joined.append(json.dumps([str(number) for number in json.loads(word)]))
        elif option not in lists or word.startswith("["):
            joined.append(word)
        else:
            before = json.loads(joined.pop()) if open_list else []
            joined.append(json.dumps([*before, int(word) if option in numbers and word.isdecimal() else word]))
            open_list = True
    return joined


def _is_list(annotation: Any) -> bool:
    return annotation in (list[str], list[str] | None, *_NUMBERS)


def _with_underscores(word: str) -> str:
    name, equals, value = word.partition("=")
    return name[:2] + name[2:].replace("-", "_") + equals + value if word.startswith("--") else word
