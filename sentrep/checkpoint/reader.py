"""Reads the parts of a checkpoint's content, each with its type and range; names the file and the key otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sentrep.checks import LARGEST
from sentrep.errors import InputError


class Reader:
    """Names the file and the key of what is wrong.

    Args:
        path: of the file, for the messages.
    """

    def __init__(self, path: object) -> None:
        self.path = path

    def refuse(self, key: str, what: str) -> InputError:
        """The error to raise."""
        return InputError(f"{self.path}: {key} {what}; the checkpoint is damaged, use another")

    def other(self, key: str, what: str) -> InputError:
        """The error where another optimiser may have written the state."""
        return InputError(
            f"{self.path}: {key} {what}; resume with the optimizer that wrote it, or use another checkpoint"
        )

    def part(self, holder: Mapping[Any, Any], key: str, kind: type, where: str = "") -> Any:
        """``holder[key]``, which must be a ``kind``."""
        name = f"{where}.{key}" if where else key
        if key not in holder:
            raise self.refuse(name, "is missing")
        if not isinstance(holder[key], kind):
            raise self.refuse(name, f"is {show(holder[key])} where a {kind.__name__} was expected")
        return holder[key]

    def count(self, holder: Any, key: str, where: str = "") -> int:
        """``holder[key]``, which must be a whole number from 0 up."""
        name = f"{where}.{key}" if where else key
        if key not in holder:
            raise self.refuse(name, "is missing")
        value = holder[key]
        if type(value) is not int or not 0 <= value < 2**63:
            raise self.refuse(name, f"is {show(value)} where a number from 0 up was expected")
        return value

    def number(self, value: Any, name: str) -> None:
        """A finite number from 0 up, also as a tensor of one element."""
        value = value.item() if isinstance(value, Tensor) and value.numel() == 1 and value.ndim == 0 else value
        if type(value) not in (int, float) or not 0 <= value <= LARGEST:
            raise self.refuse(name, f"is {show(value)} where a finite number from 0 up was expected")


def show(value: Any) -> str:
    """A value, short enough for a message."""
    shown = f"a {type(value).__name__}" if isinstance(value, (dict, list, Tensor)) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
