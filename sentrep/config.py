"""`Configurable`: objects that remember how they were built, so that a checkpoint and a YAML file can rebuild them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sentrep.errors import InputError

F = TypeVar("F", bound=Callable[..., None])
_PLAIN = (str, int, float, bool, type(None))


class Configurable:
    """Remembers the constructor's arguments.

    Every plug-in derives from it. The arguments are caught in ``__new__``, so subclasses write an ordinary ``__init__``
    and call ``super().__init__()`` as usual.

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


def moved(places: Mapping[str, str]) -> Callable[[F], F]:
    """Decorate a constructor that once had other arguments, so that a call with one of them is told its new place.

    Args:
        places: by name of the old argument: what is given instead, beside it or from ``model.`` down. The command line
            finds them as ``__init__.moved``.

    Examples:
        >>> class Bank:
        ...     @moved({"queue": "size"})
        ...     def __init__(self, size: int = 8) -> None: ...
        >>> Bank(queue=4)
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: Bank: queue is now size
    """

    def decorate(init: F) -> F:
        @functools.wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            if now := moved_names(checked, kwargs):
                raise InputError(f"{type(self).__name__}: {now}")
            init(self, *args, **kwargs)

        checked.moved = places  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate


def moved_names(init: Callable[..., Any], given: Iterable[str], path: str = "") -> str:
    """Where the arguments that a constructor no longer takes are now, in words; empty where there are none such.

    Args:
        init: an ``__init__``, perhaps decorated with `moved`.
        given: names of arguments.
        path: what stands before the names in a configuration, for example ``data.``.
    """
    places: Mapping[str, str] = getattr(init, "moved", {})
    now = {name: "" if place.startswith("model.") else path for name, place in places.items()}
    return ", ".join(f"{path}{name} is now {now[name]}{places[name]}" for name in given if name in places)


def check_initialised(plugin: Any, what: str) -> None:
    """Refuse a module whose ``__init__`` has not called that of its base class.

    Args:
        plugin: an `nn.Module` of a user, or None.
        what: where it stands, for the message.

    Raises:
        InputError: names the class.
    """
    if plugin is not None and "_modules" not in vars(plugin):  # `nn.Module.__init__` makes it
        raise InputError(f"{what}: {type(plugin).__name__}.__init__ does not call super().__init__(); call it first")


def to_config(value: Any) -> Any:
    """Plain data (dict, list, str, number, None) from which the command line rebuilds ``value``.

    Args:
        value: a `Configurable`, a class, a ``functools.partial`` of a class, a dataclass, or a container of these and
            plain values.

    Returns:
        For an object ``{"class_path": ..., "init_args": {...}}``, else the value in plain types.

    Raises:
        TypeError: for anything else, a lambda for example: it cannot be written down.

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


def _class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
