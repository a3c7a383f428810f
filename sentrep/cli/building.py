"""From settings to objects by jsonargparse, whose long account of a mistake becomes one line."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pydoc import locate
from typing import Any, TypeVar

from jsonargparse import ArgumentError, ArgumentParser, set_parsing_settings

import sentrep.negatives
import sentrep.objectives
import sentrep.views
import sentrep.weighting
from sentrep.cli.errors import UsageError
from sentrep.cli.options import search_current_folder
from sentrep.cli.recipe import Tree
from sentrep.config import walk
from sentrep.errors import InputError, did_you_mean

T = TypeVar("T")

_FRAME = re.compile(
    r"[ -]*(Parser key|Does not validate|Subtypes:|Errors:|Given value|Problem with given|Subclass types|a class path"
    r"|a dict|Expected a path|Expected a <class 'NoneType'>|$)"
)
"""Lines of an account that lead to a complaint."""
_NOISE = re.compile(r"Type \S.* expects a function or a callable class: |Subcommand '\w+' |\. Got value: Namespace\(.*")
_PLUGINS = (sentrep.objectives, sentrep.negatives, sentrep.views, sentrep.weighting)


def prepare_parsing() -> None:
    """Let configurations name the user's classes in the current folder, and nothing but classes where those belong."""
    set_parsing_settings(instantiate_subclass_spec_in_any=False, import_path_denylist=[])
    search_current_folder()


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
    with explained({key: settings}, parser.get_defaults(skip_validation=True).keys()):
        built: T = parser.instantiate_classes(parser.parse_object({key: settings}))[key]
    return built


@contextmanager
def explained(tree: Tree, known: Iterable[str] = ()) -> Iterator[None]:
    """Shorten jsonargparse's account of a refused tree, and raise a class's own error in place of the account of it.

    Args:
        tree: the settings.
        known: the dotted keys of all sections.
    """
    try:
        yield
    except ArgumentError as error:
        raise UsageError(innermost(str(error), dict(walk(tree)), known)) from None
    except ValueError as error:
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, InputError):
            cause = cause.__cause__
        if cause is not error and str(cause).startswith("Not a valid subclass"):  # another branch of a union says more
            raise InputError(innermost(str(error), dict(walk(tree)), known)) from None
        raise cause from None


def innermost(account: str, values: Tree, known: Iterable[str] = ()) -> str:
    """Return the innermost lines of an account, behind their key and before a suggestion.

    Args:
        account: of jsonargparse, on many lines.
        values: of the configuration, by dotted keys.
        known: keys of all sections.

    Examples:
        >>> innermost('Parser key "data":\\n  Parser key "size":\\n    Expected a int. Got value: x', {"data.size": 1})
        'data.size: Expected a int. Got value: x'
    """
    lines = [line for line in _NOISE.sub("", account).splitlines() if not _FRAME.match(line)] or account.splitlines()
    deepest = max(map(_depth, lines))
    complaints = [line.strip(" -") for line in lines if _depth(line) == deepest]
    before = account.partition(complaints[0])[0]
    mentioned = re.findall(r"""(Parser key|class_path) ["']([\w.]+)""", before) or [("", "")]
    if unknown := re.search(r"ption '([^']+)'", complaints[0]):
        classes = [name for kind, name in mentioned if kind == "class_path"]
        options = inspect.signature(locate(classes[-1])).parameters if classes else known  # type: ignore[arg-type]
        keys = [path for path in values if f".{path}".endswith(f".{unknown[1]}")]
        key = next((path for path in keys if classes and _owner(path, values) in classes[-1]), [*keys, unknown[1]][0])
        name = unknown[1].rpartition(".")[2]
        below = [path for path in values if path.endswith(f".{name}") and path.count(".") > key.count(".")]
        hint = did_you_mean(unknown[1], options)
        if below and not classes:
            hint = f"; did you mean '{below[0].replace('.init_args', '')}'?"
        return f"unknown key '{key}'{hint}"
    kind, key = mentioned[-1]
    hint = ""
    if missing := re.search(r"import path string: (.*)", " ".join(complaints)):
        hint = did_you_mean(missing[1], [name for room in _PLUGINS for name in room.__all__])
    wrong = missing[1] if missing else key if kind == "class_path" else None
    named = [path for path, value in values.items() if wrong in (value, _class_of(value)) and wrong]
    places = named or [path for path in values if key and f".{path}".endswith(f".{key}")]
    return ": ".join(filter(None, [next(iter(places), key), " or ".join(complaints) + hint]))


def _owner(path: str, values: Tree) -> str:
    """The class that has an argument, as the configuration names it."""
    return str(_class_of(values.get(path.rpartition(".")[0].removesuffix(".init_args"))))


def _class_of(value: Any) -> Any:
    return value.get("class_path") if isinstance(value, dict) else None


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))
