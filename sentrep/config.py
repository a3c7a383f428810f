"""`Configurable`: objects that remember how they were built, so that a checkpoint and a YAML file can rebuild them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentrep.errors import InputError

_HOMES = ("sentrep.", "torch.", "lightning.")
"""Packages whose classes may be named without their module."""
_PLAIN = (str, int, float, bool, type(None))


class Configurable:
    """Remembers the constructor's arguments.

    Every plug-in derives from it. The arguments are recorded in ``__new__``, so subclasses write an ordinary
    ``__init__`` and call ``super().__init__()`` as usual.

    Examples:
        >>> class Scale(Configurable):
        ...     def __init__(self, factor: float = 2.0, name: str = "x") -> None:
        ...         self.factor = factor
        >>> Scale(3.0).init_args
        {'factor': 3.0, 'name': 'x'}
    """

    _init_args: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        self = super().__new__(cls)
        try:
            bound = inspect.signature(cls.__init__).bind(self, *args, **kwargs)
        except TypeError:
            return self  # copy and pickle come without arguments; a wrong call is reported by __init__ itself
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        arguments.update(arguments.pop("kwargs", {}))
        self.__dict__["_init_args"] = arguments
        return self

    @property
    def init_args(self) -> dict[str, Any]:
        """The arguments that this object was built with, defaults included."""
        return self._init_args


def check_initialised(plugin: Any, what: str) -> None:
    """Refuse a module whose ``__init__`` has not called ``super().__init__()``.

    Args:
        plugin: an `nn.Module` of a user, or None.
        what: its place in the configuration, for the message.

    Raises:
        InputError: names the class.
    """
    if isinstance(plugin, Configurable) and "_modules" not in vars(plugin):  # `nn.Module.__init__` makes it
        raise InputError(f"{what}: {type(plugin).__name__}.__init__ does not call super().__init__(); call it first")


def to_config(value: Any) -> Any:
    """Plain data (dict, list, str, number, None) from which the command line rebuilds ``value``.

    Args:
        value: a `Configurable`, a class, a ``functools.partial`` of a class, a dataclass, or a container of these and
            plain values.

    Returns:
        For an object ``{"class_path": ..., "init_args": {...}}``, else the value in plain types.

    Raises:
        TypeError: for anything else, for example a lambda.

    Examples:
        >>> import functools, torch
        >>> to_config(functools.partial(torch.optim.SGD, lr=0.1))
        {'class_path': 'torch.optim.sgd.SGD', 'init_args': {'lr': 0.1}}
    """
    if isinstance(value, Configurable):
        arguments = {name: to_config(argument) for name, argument in value.init_args.items()}
        return {"class_path": _class_path(type(value)), "init_args": arguments}
    if isinstance(value, functools.partial) and isinstance(value.func, type) and not value.args:
        return {"class_path": _class_path(value.func), "init_args": to_config(value.keywords)}
    if isinstance(value, type):
        return {"class_path": _class_path(value)}
    if isinstance(value, Mapping):
        return {str(key): to_config(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return {field.name: to_config(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_config(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"{value!r} cannot be written to a configuration; use a class or functools.partial of a class")


def walk(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every plug-in and every plain value of a configuration, in order.

    Args:
        tree: plain data, as `to_config` and the command line write it.
        path: the key of the tree itself.

    Yields:
        The dotted key of the flag, without ``init_args``, and the value: the whole section of a plug-in,
        or a plain value.

    Examples:
        >>> dict(walk({"views": {"class_path": "a.B", "init_args": {"n": 1}}}, "model"))
        {'model.views': {'class_path': 'a.B', 'init_args': {'n': 1}}, 'model.views.n': 1}
    """
    if isinstance(tree, list) and any(isinstance(item, Mapping) for item in tree):
        tree = dict(enumerate(tree))
    is_plugin = isinstance(tree, Mapping) and "class_path" in tree
    if is_plugin or not isinstance(tree, Mapping):
        yield path, tree
    if isinstance(tree, Mapping):
        for below in (tree.get("init_args"), tree.get("dict_kwargs")) if is_plugin else (tree,):
            for key, value in below.items() if isinstance(below, Mapping) else ():
                yield from walk(value, f"{path}.{key}" if path else str(key))


def class_name(path: str) -> str:
    """The name by which two paths to a class are compared: with its module, unless sentrep, torch or Lightning has it.

    A class that is imported has one name, by all its paths. Nothing is imported here, because the path may
    come from a stranger's checkpoint.

    Examples:
        >>> class_name("torch.optim.AdamW"), class_name("AdamW"), class_name("mine.AdamW")
        ('AdamW', 'AdamW', 'mine.AdamW')
    """
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    full = _class_path(found) if isinstance(found, type) else path
    return full.rpartition(".")[2] if full.startswith(_HOMES) else full


def flat(settings: Any, path: str = "") -> dict[str, Any]:
    """Settings by the dotted keys of flags; a plug-in's own key holds the name of its class (`class_name`).

    Examples:
        >>> flat({"views": {"class_path": "sentrep.views.EncodedViews", "init_args": {"both": True}}}, "model")
        {'model.views': 'EncodedViews', 'model.views.both': True}
    """
    found: dict[str, Any] = {}
    for key, value in walk(settings, path):
        if not any(part.startswith("_") for part in key.split(".")):
            found[key] = class_name(str(value["class_path"])) if isinstance(value, Mapping) else value
    return found


def _class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
