"""Names in a configuration, checked against the constructors: unknown keys, unknown classes, and what was meant.

jsonargparse checks types well, but hides a misspelt name in a page of alternatives and accepts an unknown key whose
value is an empty dict.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, get_args, get_origin

from lightning.pytorch import Trainer

from sentrep.checkpoint.annotations import alternatives, hints, item, plugins
from sentrep.cli.configuration import NODE_KEYS, Request, Tree, is_node
from sentrep.cli.errors import UsageError
from sentrep.cli.names import check_known
from sentrep.cli.sections import CALLBACKS
from sentrep.data import SentRepDataModule
from sentrep.errors import did_you_mean
from sentrep.module import SentRepModule

_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_names(tree: Tree, request: Request) -> None:
    """Every key must be known, at any depth, and there must be something to train with.

    Raises:
        UsageError: names the key and what was probably meant.
    """
    check_known(request)
    for key, kind in {"model": SentRepModule, "data": SentRepDataModule, "trainer": Trainer}.items():
        check_arguments(kind, tree.get(key), key)
    for key, (base, _) in CALLBACKS.items():
        check_value(base | None, tree.get(key), key)
    objectives = tree["model"].get("objectives")
    values = list(objectives.values()) if isinstance(objectives, dict) else objectives
    if isinstance(values, list) and not any(values) and not request.rest:  # which may add one
        raise UsageError("model.objectives: no objective to train with; name at least one, for example Contrastive")


def check_arguments(target: Callable[..., Any], values: Any, path: str, supplied: int | None = None) -> None:
    """Every key of ``values``, at dotted key ``path``, must be an argument of ``target``, at any depth.

    All arguments without a default must be there but the first ``supplied`` ones; with None, none need to be. What is
    no dict is left to the type check.

    Raises:
        UsageError: names the key, and the argument that was probably meant.
    """
    if not isinstance(values, dict):
        return
    try:
        parameters = inspect.signature(target).parameters
    except ValueError:  # written in C, as a tensor is, which no configuration can build
        raise UsageError(f"{path} is {values!r}; expected a plain value") from None
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    known, given = hints(target), {str(key).removesuffix("+"): (key, value) for key, value in values.items()}
    for name, (key, value) in given.items():
        if name not in parameters and not open_ended:
            raise UsageError(f"{path}: {target.__name__} has no argument '{key}'{did_you_mean(name, parameters)}")
        if value is None and name in parameters and parameters[name].default is not None:
            _refuse_null(known.get(name), f"{path}.{key}")
        check_value(known.get(name), value, f"{path}.{key}")
    for name, parameter in list(parameters.items())[supplied:] if supplied is not None else ():
        needed = parameter.default is parameter.empty and parameter.kind not in _ANY_NUMBER
        if needed and name not in given:
            raise UsageError(f"{path}: {target.__name__}: missing argument '{name}'; set {path}.{name}")


def _refuse_null(annotation: Any, path: str) -> None:
    """For an argument that is a number, a switch or a text and nothing else: jsonargparse takes null for anything."""
    kinds = alternatives(annotation)
    if all(kind in (bool, int, float, str) for kind in kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise UsageError(f"{path} is null; expected {expected}; leave it out for its default")


def check_value(annotation: Any, value: Any, path: str) -> None:
    """`check_arguments` of the plug-ins in one argument's value; raises `UsageError` for an unknown class, too."""
    bases, element_type = plugins(annotation), item(annotation)
    if bases and len(bases) == len(alternatives(annotation)) and not isinstance(value, (dict, str)):
        expected = " or ".join(base.__name__ for base in bases)
        raise UsageError(f"{path} is {value!r}; expected the settings of {expected} below it, or leave it out")
    # what the caller of a plug-in adds, as an optimiser's parameters; nothing to a class that is built
    supplied = len(get_args(annotation)[0]) if get_origin(annotation) is Callable else 0
    if is_node(value):
        _check_node(bases, value, path, supplied)
    elif isinstance(value, dict) and len(bases) == 1 and not inspect.isabstract(bases[0]):
        check_arguments(bases[0], value.get("init_args", value), path, supplied)
    elif isinstance(value, dict) and element_type is not None:
        for key, element in value.items():
            check_value(element_type, element, f"{path}.{key}")
    elif isinstance(value, list) and element_type is not None:
        for position, element in enumerate(value):
            check_value(element_type, element, f"{path}[{position}]")
    elif isinstance(value, str) and bases and not {str, bool, int, float}.intersection(alternatives(annotation)):
        _check_node(bases, {"class_path": value}, path, supplied)


def _check_node(bases: list[type], node: Tree, path: str, supplied: int) -> None:
    target = _resolve(node["class_path"], bases, path)
    for key in node:
        if key not in NODE_KEYS:
            raise UsageError(f"{path}: '{key}' stands beside class_path; arguments go into init_args")
        if key != "class_path" and not isinstance(node[key], dict):
            raise UsageError(f"{path}: {key} is {node[key]!r}; expected the arguments by name")
    if target is not None:
        check_arguments(target, {**node.get("init_args", {}), **node.get("dict_kwargs", {})}, path, supplied)


def _resolve(name: Any, bases: list[type], path: str) -> Callable[..., Any] | None:
    """The class of that name: an import path, or the bare name of an imported subclass of one of the bases."""
    if not isinstance(name, str):
        raise UsageError(f"{path}: class_path is {name!r}; expected the name of a class")
    kinds = " or ".join(base.__name__ for base in bases)
    if "." in name:
        target = _import(name, path)
    elif not bases:  # nothing is known of what may stand here
        return None
    else:
        known = {kind.__name__: kind for base in bases for kind in _subclasses(base) if not inspect.isabstract(kind)}
        if name not in known:
            listing = f"; there are {', '.join(sorted(known))}" if len(known) <= 12 else ""
            raise UsageError(f"{path}: no {kinds} is called '{name}'{did_you_mean(name, known) or listing}")
        target = known[name]
    if not callable(target) or inspect.isbuiltin(target):
        raise UsageError(f"{path}: {name} is no class")
    if isinstance(target, type) and bases and not issubclass(target, tuple(bases)):
        raise UsageError(f"{path}: {name} is no {kinds}")
    return target


def _import(name: str, path: str) -> Callable[..., Any]:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{path}: '{name}' is no name of a class; write package.module.Class")
    module_name, attribute = name.rsplit(".", 1)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever the user's own file raises
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise UsageError(f"{path}: cannot import {name}: {kind}{error}") from None
    if not hasattr(module, attribute):
        known = [word for word in dir(module) if not word.startswith("_")]
        raise UsageError(f"{path}: {module_name} has no '{attribute}'{did_you_mean(attribute, known)}")
    return getattr(module, attribute)


def _subclasses(base: type) -> list[type]:
    below: list[type] = base.__subclasses__()
    return [base, *(kind for child in below for kind in _subclasses(child))]
