"""Commands are functions: their signature is the command line, their docstring the help."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, set_parsing_settings

from sentrep.cli.errors import UsageError, one_line
from sentrep.cli.recipe import as_words, split
from sentrep.errors import did_you_mean

EXAMPLE = "For example: "
"""How the paragraph of a docstring begins that shows the command; help and messages quote it."""


def parse(command: str, function: Callable[..., Any], words: list[str]) -> dict[str, Any]:
    """The arguments of a function, or of a dataclass, from the words behind a command.

    Parameters without a default are positional, those behind ``*`` are options. ``--base-url`` is ``--base_url``. A
    list of words is written ``[a,b]`` or as one word after the other. The fields of a dataclass are options of their
    own, ``--generation.beams``. A parameter ``words`` takes all other words, the flags of `fit`.

    Raises:
        UsageError: for words that do not fit the signature; it quotes the example of the docstring.
    """
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    about = str(inspect.getdoc(function)).split("\n\nArgs:")[0].split("\n\n")
    example = next((" ".join(part.split()) for part in about if part.startswith(EXAMPLE)), "")
    parser = ArgumentParser(
        prog=f"sentrep {command}",
        description=" ".join(part for part in about if not part.startswith(EXAMPLE)),
        epilog=example,
        exit_on_error=False,
        allow_abbrev=False,
    )
    parameters = inspect.signature(function, eval_str=True).parameters
    rest: dict[str, Any] = {}
    if "words" in parameters:
        words, rest["words"] = _sorted(words, parameters)
    parser.add_function_arguments(function, as_positional=True, skip={*rest})
    try:
        settings = parser.parse_args(_with_lists(words, parameters))
    except argparse.ArgumentError as error:
        message = str(error)
        unknown = re.search(r"unrecognized arguments: (?:--)?([\w.-]+)", message)
        hint = _meant(unknown[1], parser) if unknown else ""
        if "arguments are required" in message:
            hint = f", as in: {example.removeprefix(EXAMPLE)}"
        raise UsageError(f"{command}: {one_line(message)}{hint}") from None
    return {**vars(parser.instantiate_classes(settings)), **rest}


def search_current_folder() -> None:
    """Let classes be found in the user's own files: ``class_path: my_objective.MyObjective``."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _meant(word: str, parser: ArgumentParser) -> str:
    """The option that was probably meant, named with or without its group."""
    keys = parser.get_defaults().keys()
    names = {**{key.rpartition(".")[2]: key for key in keys}, **{key: key for key in keys}}
    hint = did_you_mean(word, names)
    return hint and hint.replace(meant := hint.split("'")[1], names[meant])


def _sorted(words: list[str], parameters: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The words of the options of a function, and all others."""
    own: list[str] = []
    others: list[str] = []
    for key, value in split(words):
        (own if key in (*parameters, "help") else others).extend(as_words(key, value))
    return own, others


def _with_lists(words: list[str], parameters: Mapping[str, Any]) -> list[str]:
    """The words with each list as the one word that jsonargparse expects, its numbers as words, too."""
    lists = {
        "" if item.kind is item.POSITIONAL_OR_KEYWORD else f"--{item.name}"
        for item in parameters.values()
        if item.annotation in (list[str], list[str] | None)
    }
    options = [[""]]  # and the words behind each; the first are positional
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("--") or word == "-h":
            name = name[:2] + name[2:].replace("-", "_")
            options.append([name, value] if equals and name in lists else [name + equals + value])
        else:
            options[-1].append(word)
    for option in options:
        if option[0] in lists and option[1:]:
            found = option[1:]
            if found[0].startswith("["):
                with suppress(yaml.YAMLError):  # which jsonargparse refuses
                    found = yaml.load(" ".join(found), yaml.BaseLoader)
            option[1:] = [json.dumps(found)]
    return [word for option in options for word in option][1:]
