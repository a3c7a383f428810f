"""Which classes a stranger's arguments may name: sentrep's plug-ins and torch's optimisers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

from torch.optim import Optimizer

from sentrep.checkpoint.annotations import alternatives, hints, item, plugins
from sentrep.config import Configurable
from sentrep.errors import InputError

_HOMES = ("sentrep.", "torch.optim.")
_BASES = (Configurable, Optimizer)


def refuse_foreign_classes(
    target: Callable[..., Any], arguments: dict[str, Any], source: str, trusted: Collection[str] = ()
) -> None:
    """Refuse constructor arguments from a stranger that name anything but sentrep's plug-ins and torch's optimisers.

    Only modules of these two packages are imported for this check. It finds a name in ``{class_path: ...}``, at any
    depth, and in a plain text where an object is expected.

    Args:
        target: the callable of the arguments.
        arguments: plain data.
        source: of the arguments, for the message.
        trusted: further allowed names, which the user wrote.

    Raises:
        InputError: names the class and the way to allow it.
    """
    for name in _named(target, arguments):
        if not _is_ours(name) and not (isinstance(name, str) and name in trusted):
            raise InputError(
                f"{source}: it asks for {str(name)[:80]!r}, which is no plug-in of sentrep and would run foreign code; "
                "if you trust the file, allow it with --trust_plugins (in Python: trust_plugins=True)"
            )


def _named(target: Callable[..., Any] | None, arguments: Any) -> list[Any]:
    """Every name of a class in the arguments of ``target``; None: a target of which nothing is known."""
    if not isinstance(arguments, dict):
        return []
    known = {} if target is None else hints(target)
    return [name for key, value in arguments.items() for name in _names(known.get(key), value)]


def _names(annotation: Any, value: Any) -> list[Any]:
    bases = plugins(annotation)
    if isinstance(value, str):
        return [value] if bases and str not in alternatives(annotation) else []
    if isinstance(value, list):
        return [name for element in value for name in _names(item(annotation), element)]
    if not isinstance(value, dict):
        return []
    if "class_path" in value:
        name = value["class_path"]
        inner = _resolve(name) if _is_ours(name) else None
        below = [_named(inner, part) for key, part in value.items() if key != "class_path"]
        return [name, *(found for part in below for found in part)]
    if item(annotation) is not None:
        return [name for element in value.values() for name in _names(item(annotation), element)]
    return _named(bases[0] if len(bases) == 1 else None, value.get("init_args", value))


def _is_ours(name: Any) -> bool:
    kind = _resolve(name)
    return isinstance(kind, type) and issubclass(kind, _BASES) and f"{kind.__module__}.".startswith(_HOMES)


def _resolve(name: Any) -> Any:
    """The object of a dotted name, without importing from elsewhere or running ``__main__``."""
    if not isinstance(name, str) or not name.startswith(_HOMES) or "__" in name:
        return None
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(import_module(module), attribute, None)
    except ImportError:
        return None
