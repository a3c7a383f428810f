"""The command ``sentrep``: finds the command's module and imports nothing else, so that ``--help`` is instant."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from sentrep.cli.errors import UsageError, of_the_machine, one_line
from sentrep.errors import InputError, did_you_mean
from sentrep.version import __version__

__all__ = ["main"]

COMMANDS = {
    "quickstart": ("sentrep.cli.quickstart", "train, score and export a small encoder on the embedded toy corpus"),
    "recipes": ("sentrep.cli.recipes", "list the recipes that ship; 'show NAME' prints one, 'copy NAME' writes it"),
    "fit": ("sentrep.cli.trainer", "train an encoder as a configuration file says"),
    "validate": ("sentrep.cli.trainer", "score a checkpoint on the validation sets (data.val)"),
    "test": ("sentrep.cli.trainer", "score a checkpoint on the test sets (data.test)"),
    "predict": ("sentrep.cli.trainer", "embed data.predict with a checkpoint, into predictions.npy"),
    "adapt": ("sentrep.cli.adapt", "make a model better on a text of yours, and say whether it is"),
    "encode": ("sentrep.cli.encode", "embed the lines of a file: text in, .npy or .parquet out"),
    "evaluate": ("sentrep.cli.evaluate", "score any model on the semantic textual similarity sets"),
    "compare": ("sentrep.cli.compare", "train recipes under several seeds and say whether they differ"),
    "doctor": ("sentrep.cli.doctor", "check on this machine that training with a configuration does what it should"),
    "export": ("sentrep.cli.export", "turn a checkpoint into a folder for transformers and sentence-transformers"),
    "plot": ("sentrep.cli.plot", "draw runs, sweeps, embeddings and scores for a paper: PNG and SVG"),
    "data": ("sentrep.cli.data", "'data check' counts evaluation sentences that stand in the training text"),
    "backtranslate": ("sentrep.cli.backtranslate", "make pairs: sentences translated to another language and back"),
    "paraphrase": ("sentrep.cli.paraphrase", "make pairs and hard negatives with a language model behind an API"),
    "questions": ("sentrep.cli.questions", "make pairs: a model's questions that lead back to their passage"),
}
"""Command: the module whose ``run(command, arguments)`` does it, and its line in the help."""

HINT = "; 'sentrep --help' lists the commands"
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 + SIGINT."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one ``sentrep`` command.

    Args:
        argv: the words after ``sentrep``; None takes them from the command line.

    Returns:
        The exit status: 0 done, 1 bad input, 2 wrong usage, 130 interrupted, 143 terminated.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except InputError as error:
        print(f"sentrep: error: {one_line(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except (OSError, MemoryError, RuntimeError) as error:
        reason = of_the_machine(error)
        if reason is None:
            raise
        logging.getLogger("sentrep").debug("where it happened", exc_info=True)
        print(f"sentrep: error: {one_line(reason)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("sentrep: interrupted", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as stop:  # argparse leaves --help this way, Lightning an interrupted run
        if isinstance(stop.__context__, KeyboardInterrupt):
            return INTERRUPTED
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _dispatch(words: list[str]) -> int:
    position = _command_position(words)
    if position is None:
        if "--version" in words:
            print(f"sentrep {__version__}")
        else:
            print(_help())
        return 0
    command = words[position]
    if command not in COMMANDS:
        raise UsageError(f"unknown command '{command}'{did_you_mean(command, COMMANDS) or HINT}")
    run: Callable[[str, list[str]], int] = import_module(COMMANDS[command][0]).run
    return run(command, words[:position] + words[position + 1 :])


def _command_position(words: list[str]) -> int | None:
    """Where the command stands: the first word that is neither an option nor the file of ``-c``."""
    takes_value = False
    for position, word in enumerate(words):
        if takes_value:
            takes_value = False
        elif word in ("-c", "--config"):
            takes_value = True
        elif not word.startswith("-"):
            return position
        elif word in ("-h", "--help", "--version"):
            return None
    if words:
        raise UsageError(f"no command given{HINT}")
    return None


def _help() -> str:
    lines = [f"  {name:<15}{summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: sentrep COMMAND [options]",
            "",
            "Sentence embeddings without labels.",
            "",
            *lines,
            "",
            "'sentrep COMMAND --help' explains a command; 'sentrep --version' prints the version.",
        ]
    )
