"""Commands that are plain functions: their signature is the command line, their docstring the help."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from typing import Any

from jsonargparse import ArgumentParser

from sentrep.cli.errors import UsageError, summarize
from sentrep.errors import did_you_mean


def run_function(function: Callable[..., Any], command: str, words: list[str]) -> Any:
    """Call a function with arguments from the command line.

    Parameters without a default are positional, those behind ``*`` are options. ``--base-url`` is ``--base_url``.

    Args:
        function: with type hints and a Google-style docstring.
        command: its name on the command line.
        words: what stands behind the name.

    Returns:
        What the function returns.

    Raises:
        UsageError: for words that do not fit the signature.
    """
    parser = ArgumentParser(
        prog=f"sentrep {command}",
        description=inspect.getdoc(function).split("\n\n")[0],  # type: ignore[union-attr]
        exit_on_error=False,
        allow_abbrev=False,
    )
    parser.add_function_arguments(function, as_positional=True)
    try:
        settings = parser.parse_args([_with_underscores(word) for word in words])
    except argparse.ArgumentError as error:
        message = str(error)
        unknown = re.search(r"unrecognized arguments: (?:--)?([\w-]+)", message)
        hint = did_you_mean(unknown[1], inspect.signature(function).parameters) if unknown else ""
        raise UsageError(f"{command}: {summarize(message, {})}{hint}") from None
    return function(**settings.as_dict())


def _with_underscores(word: str) -> str:
    name, equals, value = word.partition("=")
    return name[:2] + name[2:].replace("-", "_") + equals + value if word.startswith("--") else word
