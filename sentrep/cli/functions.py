"""Commands that are plain functions: their signature is the command line, their docstring the help."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from jsonargparse import ArgumentParser, set_parsing_settings

from sentrep.cli.complaints import summarize
from sentrep.cli.errors import UsageError
from sentrep.cli.outline import outline
from sentrep.errors import did_you_mean
from sentrep.reports.text import listing

_LIGHT = ("sentrep.cli.fit", "sentrep.cli.compare_words", "sentrep.cli.recipes")
"""Modules that import nothing heavy by themselves."""


def search_current_folder() -> None:
    """Let classes be found in the user's own files: ``class_path: my_objective.MyObjective``."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def load(module: str) -> ModuleType:
    """Import the module of a command, which takes seconds; on a terminal a line says so."""
    at_once = module in _LIGHT or "torch" in sys.modules
    if not at_once and sys.stderr.isatty():
        print("sentrep: loading PyTorch and what goes with it ...", file=sys.stderr, flush=True)
    return import_module(module)


def run_function(module: str, name: str, command: str, words: list[str]) -> Any:
    """Call a function with arguments from the command line; its module is imported once they are understood.

    Parameters without a default are positional, those behind ``*`` are options. ``--base-url`` is ``--base_url``. An
    option that takes a list of words takes them as ``[a,b]`` or one after the other, as does the first
    positional. The fields of a dataclass are options of their own, ``--generation.beams``.

    Args:
        module: where the function is.
        name: of a function with type hints and a Google-style docstring.
        command: its name on the command line.
        words: what stands behind the name.

    Returns:
        What the function returns.

    Raises:
        UsageError: for words that do not fit the signature.
    """
    arguments = parse(outline(module)[name], command, words)
    function = getattr(load(module), name)
    groups = {group: kind for group, kind in _groups(function).items() if group in arguments}
    return function(**arguments | {group: kind(**arguments[group]) for group, kind in groups.items()})


def parse(function: Callable[..., Any], command: str, words: list[str]) -> dict[str, Any]:
    """The arguments of a function out of the words behind a command, those of a dataclass as a dict of their own."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(
        prog=f"sentrep {command}",
        description=str(inspect.getdoc(function)).split("\n\n")[0],
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
        if "arguments are required" in message:
            hint = f", as in: sentrep {command} {_least(function)}"
        raise UsageError(f"{command}: {summarize(message, {})}{hint}") from None
    arguments: dict[str, Any] = settings.as_dict()
    return arguments


def explain(module: str, name: str, command: str) -> None:
    """Print the help of a command that takes its words as they are: a text of its module, or a signature's."""
    found = outline(module)[name]
    if isinstance(found, str):
        width = shutil.get_terminal_size().columns - 2
        print("\n\n".join(textwrap.fill(block, width) for block in found.split("\n\n")))
    else:
        parse(found, command, ["--help"])


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


def run_one_of(module: str, kinds: Mapping[str, str], command: str, words: list[str]) -> Any:
    """Call the function of the kind that the first word names, see `run_function`; without one, print what there is.

    Raises:
        UsageError: there is no such kind.
    """
    if not words or words[0] in ("-h", "--help"):
        summaries = {kind: str(inspect.getdoc(outline(module)[name])).split("\n")[0] for kind, name in kinds.items()}
        print(f"usage: sentrep {command} KIND [options]\n\n{listing(summaries, 12)}")
        return None
    kind, *rest = words
    if kind not in kinds:
        hint = did_you_mean(kind, kinds) or f"; there are {', '.join(kinds)}"
        raise UsageError(f"{command}: no '{kind}'{hint}")
    return run_function(module, kinds[kind], f"{command} {kind}", rest)


def _least(function: Callable[..., Any]) -> str:
    """The words without which a command does nothing."""
    needed = [item for item in inspect.signature(function).parameters.values() if item.default is item.empty]
    options = {item.name: f"--{item.name} " if item.kind is item.KEYWORD_ONLY else "" for item in needed}
    return " ".join(f"{option}{name.upper()}" for name, option in options.items())


def _with_lists(function: Callable[..., Any], words: list[str]) -> list[str]:
    """Words behind one another that are the elements of one list, as the one word that jsonargparse expects."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    lists = {f"--{item.name}" for item in parameters if _is_list(item.annotation)}
    first = next(iter(parameters), None)
    if first is not None and first.kind is not first.KEYWORD_ONLY and _is_list(first.annotation):
        lists.add("")
    joined: list[str] = []
    option, open_list = "", False
    for word in words:
        if word.startswith("--"):
            option, open_list = word, False
            joined.append(word)
        elif option in lists and re.fullmatch(r"\[\s*\d+\s*(,\s*\d+\s*)*\]", word):  # of columns: words, too
            joined.append(json.dumps([str(number) for number in json.loads(word)]))
        elif option not in lists or word.startswith("["):
            joined.append(word)
        else:
            before = json.loads(joined.pop()) if open_list else []
            joined.append(json.dumps([*before, word]))
            open_list = True
    return joined


def _is_list(annotation: Any) -> bool:
    return annotation in (list[str], list[str] | None)


def _with_underscores(word: str) -> str:
    name, equals, value = word.partition("=")
    return name[:2] + name[2:].replace("-", "_") + equals + value if word.startswith("--") else word
