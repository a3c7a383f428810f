"""Type hints of a constructor's argument: the allowed classes, and the elements of a container."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any


def hints(target: Callable[..., Any]) -> dict[str, Any]:
    """Type hints of a function's, or a class's constructor's, arguments; none where they cannot be read."""
    try:
        return typing.get_type_hints(target.__init__ if isinstance(target, type) else target)  # type: ignore[misc]
    except (NameError, TypeError):
        return {}  # imported for type checkers only, or written in C


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union, flattened; for a callable that returns an object, the class of that object."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if origin is not None and getattr(origin, "__name__", "") in ("Union", "UnionType"):
        return [kind for member in typing.get_args(annotation) for kind in alternatives(member)]
    if origin is Callable:
        return alternatives(typing.get_args(annotation)[-1])
    return [annotation]


def plugins(annotation: Any) -> list[type]:
    """The alternatives that are classes to build an object of, not plain values."""
    plain = ("builtins", "datetime", "pathlib", "typing")
    return [kind for kind in alternatives(annotation) if isinstance(kind, type) and kind.__module__ not in plain]


def item(annotation: Any) -> Any:
    """The type of the values of a dict, or of the elements of a list; None where there are none."""
    items = [_item(kind) for kind in alternatives(annotation) if typing.get_origin(kind) is not None]
    return typing.Union[tuple(kind for kind in items if kind is not None)] if any(items) else None  # noqa: UP007


def _item(annotation: Any) -> Any:
    arguments = [kind for kind in typing.get_args(annotation) if kind is not Ellipsis]
    return arguments[-1] if arguments and typing.get_origin(annotation) is not typing.Literal else None
