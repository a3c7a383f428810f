"""Packages that only some features need: the extras of pyproject.toml."""

from __future__ import annotations

import importlib.metadata

from lightning_utilities.core.imports import RequirementCache
from packaging.requirements import Requirement

from sentrep.errors import InputError


def require(what: str, extra: str, *packages: str) -> None:
    """Refuse a feature whose packages are missing, or older than pyproject.toml allows.

    Args:
        what: the feature, as it begins a sentence.
        extra: the extra that brings them.
        packages: those that are needed.

    Raises:
        InputError: names the package and the command that installs it.
    """
    if absent := lacking(*packages):
        raise InputError(f"{what} needs the package {absent}: pip install 'sentrep[{extra}]'")


def lacking(*packages: str) -> str | None:
    """The first of some packages that is missing or too old, with the versions that are allowed; None for none."""
    declared = map(Requirement, importlib.metadata.requires("sentrep") or ())
    bounds = [f"{needed.name}{needed.specifier}" for needed in declared if needed.name in packages]
    return next((bound for bound in bounds if not RequirementCache(bound)), None)
