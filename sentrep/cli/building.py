"""The sections of a configuration as objects, as `fit` builds them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from jsonargparse import ArgumentParser
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger

from sentrep.cli.configuration import Tree
from sentrep.cli.errors import UsageError, summarize
from sentrep.config import Configurable
from sentrep.errors import InputError

T = TypeVar("T")


def build(kind: type[T], key: str, settings: Tree) -> T:
    """The object of a section, from values that may be text as flags give them.

    Args:
        kind: class of the section.
        key: name of the section, for the messages.
        settings: arguments by name.

    Raises:
        UsageError: a value of another type.
        InputError: a value that the class refuses.
    """
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, key, fail_untyped=False)
    try:
        config = parser.parse_object({key: settings})
    except argparse.ArgumentError as error:
        raise UsageError(summarize(str(error), {key: settings})) from None
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
            if isinstance(error, ModuleNotFoundError) and issubclass(kind, Logger):
                found = re.search(r"'([\w.-]+)", str(error))
                package = found[1] if found else kind.__name__.removesuffix("Logger").lower()
                refused = f"trainer.logger: {kind.__name__} needs a package that is not here: pip install {package}"
                refusals[-1] = InputError(refused)
                raise refusals[-1] from None
            if isinstance(error, AttributeError) and "__init__() call" in str(error):  # of `nn.Module`
                name = f"{kind.__module__}.{kind.__qualname__}"
                refusals[-1] = InputError(f"{name}: its __init__ uses the module before super().__init__()")
                raise refusals[-1] from error
            raise

    for base in (Configurable, Callback, Logger):
        parser.add_instantiator(build, base)
    try:
        yield
    except ValueError as error:
        first = refusals[0] if refusals else error
        # bad values that a class of Lightning's refuses are the user's, too
        raise (InputError(str(first)) if type(first) is ValueError else first) from None
