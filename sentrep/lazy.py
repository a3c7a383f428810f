"""Public names that a package imports on first use: PyTorch, Lightning and pyarrow take seconds to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Type checkers read the same names from imports under ``TYPE_CHECKING``, each ``as`` itself, which re-exports it.

    Args:
        package: its ``__name__``.
        homes: the public names of each module below it.
    """
    places = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)  # from now on Python finds it without asking here
        return value

    return get, lambda: list(places), list(places)
