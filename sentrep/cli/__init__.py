"""The command ``sentrep``: finds the command, runs it, and ends every error in one line.

    errors, options    the boundary for errors; from words to the arguments of a function
    fit, words, run    ``fit``, ``validate``, ``test`` and ``predict``: their words, and the LightningCLI
    recipe             from files and flags to one tree
    layers             the defaults and the checkpoint around this tree
    seeds, compare     a recipe under several seeds, and the judgement of finished runs
    tables, recipes    papers' tables, and the files that ship
    ...                the other commands, a file each

Everything that is imported for help and for wrong usage is light: the commands import PyTorch when they are called.
"""

from __future__ import annotations

import inspect
import os
import platform
import select
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import TextIO

from sentrep.cli.errors import UsageError, report
from sentrep.errors import did_you_mean
from sentrep.version import __version__

__all__ = ["main"]

COMMANDS = {
    "quickstart": "fit:quickstart",
    "recipes": "recipes:list_recipes",
    "recipes show": "recipes:show",
    "fit": "fit:fit",
    "validate": "fit:validate",
    "test": "fit:test",
    "predict": "fit:predict",
    "encode": "encode:encode",
    "evaluate": "evaluate:evaluate",
    "compare": "compare:compare",
    "export": "export:export",
    "backtranslate": "backtranslate:backtranslate",
}
"""Every command: a module below `sentrep.cli`, and its function; the first line of its docstring is for the help."""
PACKAGES = ("torch", "lightning", "transformers", "sentence-transformers")
"""What ``--version`` names beside sentrep: the packages that compute."""
DEBUG = "--debug"
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 + SIGINT."""
CLOSED_PIPE = 141
"""Exit status after the reader of the output has ended, as of ``sentrep recipes | head -1``: 128 + SIGPIPE."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one ``sentrep`` command.

    Args:
        argv: the words after ``sentrep``; None takes them from the command line.

    Returns:
        The exit status: 0 done, 1 an error, 2 wrong usage, 130 interrupted, 141 output closed, 143 terminated.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch([word for word in words if word != DEBUG])
        sys.stdout.flush()  # before Python does, which reports a closed pipe
        return status
    except BrokenPipeError as error:
        return CLOSED_PIPE if _lost_its_reader(sys.stdout) else report(error, debug=DEBUG in words)
    except Exception as error:
        return report(error, debug=DEBUG in words)
    except KeyboardInterrupt:
        print("sentrep: interrupted", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as stop:  # argparse leaves --help this way, Lightning an interrupted run
        if isinstance(stop.__context__, KeyboardInterrupt):
            return INTERRUPTED
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _lost_its_reader(stream: TextIO) -> bool:
    """Whether the reader of a stream has ended; if so, further output is discarded."""
    pipe = select.poll()
    pipe.register(stream.fileno(), 0)  # asks for errors alone
    if not pipe.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return True


def _dispatch(words: list[str]) -> int:
    first, *rest = words or ["--help"]
    if first == "--version":
        _print_versions()
        return 0
    if first in ("-h", "--help"):
        print(_help())
        return 0
    name = f"{first} {rest.pop(0)}" if rest and f"{first} {rest[0]}" in COMMANDS else first
    if name not in COMMANDS:
        close = "; did you mean 'fit'?" if name == "train" else did_you_mean(name, COMMANDS)
        hint = close or "; 'sentrep --help' lists the commands"
        raise UsageError(f"unknown command '{name}'{hint}")
    function = _function_of(name)
    if [*inspect.signature(function).parameters] == ["words"]:  # which it sorts by itself
        if {"-h", "--help"}.isdisjoint(rest):
            return function(rest) or 0
        print(inspect.getdoc(function))
        return 0
    from sentrep.cli.options import parse

    return function(**parse(name, function, rest)) or 0


def _print_versions() -> None:
    print("sentrep", __version__)
    for package in PACKAGES:
        print(package, metadata.version(package))
    print("Python", platform.python_version())


def _function_of(command: str) -> Callable[..., int | None]:
    module, name = COMMANDS[command].split(":")
    function: Callable[..., int | None] = getattr(import_module(f"sentrep.cli.{module}"), name)
    return function


def _help() -> str:
    summaries = [f"  {name:<15}{str(inspect.getdoc(_function_of(name))).splitlines()[0]}" for name in COMMANDS]
    return "\n".join(
        [
            "usage: sentrep COMMAND [options]\n\nTrain and use sentence-embedding models.\n",
            *summaries,
            "\n'sentrep COMMAND --help' explains a command, 'sentrep --version' names the versions.",
            f"{DEBUG} prints the traceback of an error.",
        ]
    )
