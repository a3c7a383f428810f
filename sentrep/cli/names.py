"""Keys of a configuration that are known to no class, found in the sources: importing the classes takes seconds."""

from __future__ import annotations

from typing import Any

from sentrep.cli.configuration import Request, Tree, with_flags
from sentrep.cli.errors import UsageError
from sentrep.cli.outline import arguments, outline
from sentrep.config import walk
from sentrep.errors import did_you_mean

SECTIONS = {
    "model": ("sentrep.module", "SentRepModule"),
    "data": ("sentrep.data", "SentRepDataModule"),
    "trainer": ("lightning.pytorch", "Trainer"),
}
"""Section: the class whose arguments stand in it."""
CALLBACK_SECTIONS = ("checkpoint", "progress", "collapse", "guard", "report")
"""Callbacks that every run has, each with a section of its own."""
_OTHERS = ("seed_everything", "ckpt_path", "weights_only", "verbose", "return_predictions")
_PACKAGES = ("objectives", "negatives", "weighting", "views", "decoders", "encoder", "evaluation", "stability")
"""Where the plug-ins are that a configuration may name without a package."""
_NUMBERS = {"int": "int", "float": "float", "int | None": "int or null", "float | None": "float or null"}
"""Types as they are written, and as they are said."""


def check_known(request: Request) -> None:
    """Refuse sections, and arguments of sections and of plug-ins, that the sources do not have.

    Classes without a source at hand are left to the check after everything is imported.

    Raises:
        UsageError: names the key and what was probably meant.
    """
    tree = with_flags(request.tree, request.flags)
    known = (*SECTIONS, *CALLBACK_SECTIONS, *_OTHERS)
    for key, value in tree.items():
        if key not in known:
            raise UsageError(f"{origin(key, request)}unknown key '{key}'{did_you_mean(key, known)}")
        if key in SECTIONS:
            _check(SECTIONS[key], value, key)
        for path, section in walk(value, key):
            _check_plugin(path, section)


def origin(key: str, request: Request) -> str:
    """The file that a top-level key comes from, as the beginning of a message; empty for a flag."""
    return next((f"{name}: " for name, tree in reversed(request.sources) if key in tree), "")


def _check_plugin(path: str, value: Any) -> None:
    if isinstance(value, dict) and isinstance(value.get("class_path"), str):
        module, _, name = value["class_path"].rpartition(".")
        homes = [module] if module else [f"sentrep.{package}" for package in _PACKAGES]
        home = next((home for home in homes if module or outline(home).statement(name)), None)
        if home is not None:
            _check((home, name), value.get("init_args"), path)


def _check(place: tuple[str, str], values: Tree | None, path: str) -> None:
    known = arguments(*place)
    for key, value in values.items() if known and isinstance(values, dict) else ():
        name = str(key).removesuffix("+")
        if name not in known:
            raise UsageError(f"{path}: {place[1]} has no argument '{key}'{did_you_mean(name, known)}")
        if known[name] in _NUMBERS and isinstance(value, str) and not _is_number(value):
            raise UsageError(f"{path}.{name}: expected {_NUMBERS[known[name]]}, got '{value}'")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
