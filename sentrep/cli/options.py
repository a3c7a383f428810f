"""Commands are functions: their signature is the command line, their docstring the help."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from sentrep.cli.errors import UsageError, one_line
from sentrep.errors import did_you_mean


def parse(command: str, function: Callable[..., Any], words: list[str]) -> dict[str, Any]:
    """The arguments of a function from the words after a command.

    Parameters without a default are positional, those behind ``*`` are options; ``--base-url`` is ``--base_url``. A
    list is written ``[a,b]`` or as one word after the other.

    Raises:
        UsageError: for words that do not fit the signature.
    """
    about, _, example = str(inspect.getdoc(function)).split("\n\nArgs:")[0].partition("\n\nFor example: ")
    parser = ArgumentParser(
        prog=f"sentrep {command}",
        description=about,
        epilog=example and f"For example: {example}",
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_function_arguments(function, as_positional=True)
    lists = {
        "" if item.kind is item.POSITIONAL_OR_KEYWORD else f"--{item.name}"
        for item in inspect.signature(function, eval_str=True).parameters.values()
        if "list[" in str(item.annotation)
    }
    positional = [
        item.name
        for item in inspect.signature(function).parameters.values()
        if item.kind is item.POSITIONAL_OR_KEYWORD and item.default is item.empty
    ]
    words = [re.sub("^--[^=]*", lambda name: f"--{name[0][2:].replace('-', '_')}", word) for word in words]
    try:
        settings = parser.parse_args(_with_lists(words, lists))
    except argparse.ArgumentError as error:
        unknown = re.search(r"unrecognized arguments: (?:--)?([\w.-]+)", str(error))
        hint = did_you_mean(unknown[1], parser.get_defaults().keys()) if unknown else ""
        if unknown and unknown[1] in positional:
            hint = f"; the {unknown[1]} is the first word: sentrep {command} {unknown[1].upper()}"
        raise UsageError(f"{command}: {one_line(str(error))}{hint}") from None
    return dict(vars(settings))


def search_current_folder() -> None:
    """Let classes be found in the user's own files: ``class_path: my_objective.MyObjective``."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _with_lists(words: list[str], lists: Container[str]) -> list[str]:
    """The words with each list as the one word that jsonargparse expects."""
    options = [[""]]  # and the words behind each; the first are positional
    for word in words:
        if word.startswith("-"):
            options.append(word.split("=", 1))
        else:
            options[-1].append(word)
    for option in options:
        if option[0] in lists and option[1:] and not option[1].startswith("["):
            option[1:] = [json.dumps(option[1:])]
    return [word for option in options for word in option][1:]
