"""The command ``sentrep``: finds the command, and imports what it needs only once its words are understood."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sentrep.cli.errors import UsageError, report
from sentrep.errors import did_you_mean
from sentrep.reports.text import listing
from sentrep.version import __version__

__all__ = ["main"]


@dataclass(frozen=True)
class Command:
    """What stands behind a word of the command line."""

    summary: str
    """Its line in the help."""
    module: str
    """Its name in `sentrep.cli`, and where nothing else is said that of its function."""
    function: str = ""
    """Its signature is the command line, or it takes the command and its words as they are (``sorts``)."""
    kinds: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """In the place of one function, one for each kind: ``data check``."""
    default: str = ""
    """The kind where none is named."""
    sorts: bool = False
    """Whether the function sorts the words by itself, because flags of the configuration are among them."""
    help: str = ""
    """What explains such a command: a text or a signature of its module; without, the function does."""


_PICTURES = ("curves", "sweep")
_FIT = ("fit", "train_or_score")
_RECIPES = {"list": "list_recipes", "show": "show", "copy": "copy"}
COMMANDS = {
    "quickstart": Command(
        "train, score and export a small encoder on the embedded toy corpus",
        "fit",
        "quickstart",
        sorts=True,
        help="QUICKSTART",
    ),
    "recipes": Command(
        "list the recipes that ship; 'show NAME' prints one, 'copy NAME' writes it",
        "recipes",
        kinds=_RECIPES,
        default="list",
    ),
    "fit": Command("train an encoder as a configuration file says", *_FIT, sorts=True),
    "validate": Command("score a checkpoint on the validation sets (data.val)", *_FIT, sorts=True),
    "test": Command("score a checkpoint on the test sets (data.test)", *_FIT, sorts=True),
    "predict": Command("embed data.predict with a checkpoint, into predictions.npy", *_FIT, sorts=True),
    "adapt": Command("make a model better on a text of yours, and say whether it is", "adapt"),
    "encode": Command("embed the lines of a file: text in, .npy or .parquet out", "encode"),
    "evaluate": Command("score any model on the semantic textual similarity sets", "evaluate"),
    "compare": Command(
        "train recipes under several seeds and say whether they differ",
        "compare_words",
        "compare",
        sorts=True,
        help="Options",
    ),
    "doctor": Command(
        "check on this machine that training with a configuration does what it should",
        "fit",
        "doctor",
        sorts=True,
        help="DOCTOR",
    ),
    "export": Command(
        "turn a checkpoint into a folder for transformers and sentence-transformers", "export", "export_model"
    ),
    "plot": Command(
        "draw the curves of runs, and sweeps, for a paper: PNG and SVG",
        "plot",
        kinds={name: name for name in _PICTURES},
    ),
    "data": Command(
        "'data check' counts evaluation sentences that stand in the training text", "data", kinds={"check": "check"}
    ),
    "backtranslate": Command("make pairs: sentences translated to another language and back", "backtranslate"),
    "paraphrase": Command("make pairs and hard negatives with a language model behind an API", "paraphrase"),
    "questions": Command("make pairs: a model's questions that lead back to their passage", "questions"),
}

DEBUG = "--debug"
HINT = "; 'sentrep --help' lists the commands"
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 + SIGINT."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one ``sentrep`` command.

    Args:
        argv: the words after ``sentrep``; None takes them from the command line.

    Returns:
        The exit status: 0 done, 1 an error, 2 wrong usage, 130 interrupted, 143 terminated.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch([word for word in words if word != DEBUG])
    except Exception as error:
        return report(error, debug=DEBUG in words)
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
    name = words[position]
    if name not in COMMANDS:
        raise UsageError(f"unknown command '{name}'{did_you_mean(name, COMMANDS) or HINT}")
    return _call(COMMANDS[name], name, words[:position] + words[position + 1 :])


def _call(command: Command, name: str, words: list[str]) -> int:
    from sentrep.cli import functions

    module, function = f"sentrep.cli.{command.module}", command.function or command.module
    if command.kinds:
        words = words or [command.default] * bool(command.default)
        return functions.run_one_of(module, command.kinds, name, words) or 0
    if not command.sorts:
        return functions.run_function(module, function, name, words) or 0
    if command.help and not {"-h", "--help"}.isdisjoint(words):
        functions.explain(module, command.help, name)
        return 0
    return int(getattr(functions.load(module), function)(name, words))


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
    return "\n".join(
        [
            "usage: sentrep COMMAND [options]",
            "",
            "Sentence embeddings without labels.",
            "",
            listing({name: command.summary for name, command in COMMANDS.items()}),
            "",
            "'sentrep COMMAND --help' explains a command, 'sentrep --version' is the version.",
            "--debug prints the traceback of an error.",
        ]
    )
