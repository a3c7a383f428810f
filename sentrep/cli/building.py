"""The sections of a configuration as objects, as `fit` builds them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from jsonargparse import ArgumentParser
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger

from sentrep.cli.complaint import shortened
from sentrep.cli.recipe import Tree
from sentrep.config import Configurable

T = TypeVar("T")


def build(kind: type[T], key: str, settings: Tree) -> T:
    """The object of a section.

    Args:
        kind: class of the section.
        key: name of the section, for the messages.
        settings: arguments by name.

    Raises:
        UsageError: an unknown argument or class, or a value of another type.
        InputError: a value that the class refuses.
    """
    settings = copy.deepcopy(settings)  # jsonargparse changes nested dicts in place
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, key, fail_untyped=False)
    with shortened({key: settings}, parser.get_defaults(skip_validation=True).keys()):
        config = parser.parse_object({key: settings})
    with first_refusal(parser):
        built: T = parser.instantiate_classes(config)[key]
    return built


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
