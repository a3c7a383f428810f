"""The sections of a configuration as objects, as `fit` builds them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger

from sentrep.cli.complaints import summarize
from sentrep.cli.configuration import NODE_KEYS, Tree
from sentrep.cli.errors import UsageError
from sentrep.config import Configurable
from sentrep.errors import did_you_mean

T = TypeVar("T")


def build(kind: type[T], key: str, settings: Tree) -> T:
    """The object of a section, from values that may be text as flags give them.

    Args:
        kind: class of the section.
        key: name of the section, for the messages.
        settings: arguments by name.

    Raises:
        UsageError: an unknown argument or class, or a value of another type.
        InputError: a value that the class refuses.
    """
    parser, config = parsed(kind, key, settings)
    with first_refusal(parser):
        built: T = parser.instantiate_classes(config)[key]
    return built


def parsed(kind: type, key: str, settings: Tree) -> tuple[ArgumentParser, Namespace]:
    """The parser of a section, and what it makes of the settings; see `build`, but builds nothing."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, key, fail_untyped=False)
    with summarized(parser, {key: settings}):
        config = parser.parse_object({key: settings})
    refuse_dropped({key: settings}, config)
    return parser, config


@contextmanager
def summarized(parser: ArgumentParser, tree: Tree, command: str = "") -> Iterator[None]:
    """Refuse in one sentence what the parser, or that of a subcommand, refuses in a page (`summarize`)."""
    try:
        yield
    except argparse.ArgumentError as error:
        known = parser.get_defaults(skip_validation=True).keys()
        message = re.sub(rf"(?<=['\"]){command}\.", "", str(error)) if command else str(error)
        raise UsageError(summarize(message, tree, known)) from None


def refuse_dropped(tree: Any, config: Any, path: str = "") -> None:
    """Refuse an unknown key whose value is ``{}``: jsonargparse drops it in silence.

    Args:
        tree: what was asked for.
        config: what was made of it.
        path: the key of both.

    Raises:
        UsageError: names the key, and the one that was probably meant.
    """
    if not isinstance(tree, dict) or not isinstance(config, (dict, Namespace)):
        return
    if "class_path" in config and "class_path" not in tree:
        tree, config = tree.get("init_args", tree), config.get("init_args")
    for key, value in tree.items():
        place = path if key in NODE_KEYS else f"{path}.{key}" if path else str(key)
        if value == {} and key not in config:
            raise UsageError(f"{place}: there is no such key{did_you_mean(str(key), map(str, config.keys()))}")
        refuse_dropped(value, config.get(key), place)


@contextmanager
def first_refusal(parser: ArgumentParser) -> Iterator[None]:
    """Raise the first error of a class that the parser builds, not jsonargparse's report of the whole union."""
    refusals: list[Exception] = []

    def build(kind: type, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return kind(*args, **kwargs)
        except Exception as error:
            refusals.append(error)
            raise

    for base in (Configurable, Callback, Logger):
        parser.add_instantiator(build, base)
    try:
        yield
    except ValueError as error:
        raise refusals[0] if refusals else error from None
