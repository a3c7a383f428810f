"""Checks of constructor arguments, the same for every class: the message names the class, the argument and its value.

Each check takes the object (or the name to show) first and the arguments by name. A NaN is outside every range, an
infinity outside every finite range, and True does not count as a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from sentrep.errors import InputError

SMALLEST, LARGEST = 1e-37, 1e37
"""What float32 holds, with a margin, besides 0."""


def given(**values: Any) -> dict[str, Any]:
    """The arguments that are not None, of arguments that may be None."""
    return {name: value for name, value in values.items() if value is not None}


def positive(owner: object, **values: Any) -> None:
    """Numbers above 0 that float32 holds.

    Raises:
        InputError: for any other value.

    Examples:
        >>> positive("SAM", rho=0.0)
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: SAM: rho must be positive and finite, got 0.0 (float32 holds 1e-37 to 1e+37)
    """
    fits = _number(lambda x: SMALLEST <= x <= LARGEST)
    _require(owner, "be positive and finite", fits, values, f" (float32 holds {SMALLEST} to {LARGEST})")


def not_negative(owner: object, **values: Any) -> None:
    """Numbers from 0 up that float32 holds.

    Raises:
        InputError: for any other value.
    """
    _require(owner, "be 0 or more", _number(lambda x: 0 <= x <= LARGEST), values, f" (float32 holds up to {LARGEST})")


def share(owner: object, **values: Any) -> None:
    """Numbers in [0, 1), as a rate of dropout is.

    Raises:
        InputError: for any other value.
    """
    _require(owner, "lie in [0, 1)", _number(lambda x: 0 <= x < 1), values)


def at_least(owner: object, least: int, **values: Any) -> None:
    """Numbers from ``least`` up: of things that a loop would leave out in silence.

    Raises:
        InputError: for a smaller number.
    """
    _require(owner, f"be {least} or more", lambda value: value >= least, values)


def within(owner: object, low: float, high: float, *, open_below: bool = False, **values: Any) -> None:
    """Numbers in [low, high], or in (low, high].

    Raises:
        InputError: for any other value.
    """
    fits = _number(lambda x: low < x <= high if open_below else low <= x <= high)
    _require(owner, f"lie in {'(' if open_below else '['}{low}, {high}]", fits, values)


def divides(owner: object, whole: int, what: str, **values: Any) -> None:
    """Numbers that divide another one without a rest.

    Raises:
        InputError: for any other value.

    Examples:
        >>> divides("Denoising", 768, "the encoder's width", heads=5)
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: Denoising: heads must divide the encoder's width 768, got 5
    """
    _require(owner, f"divide {what} {whole}", lambda value: whole % value == 0, values)


def _number(fits: Callable[[float], bool]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool):
            return False
        number: Any = value  # Real has no order for a type checker
        return (isinstance(value, Integral) or math.isfinite(value)) and fits(number)

    return check


def _require(
    owner: object, expected: str, fits: Callable[[Any], bool], values: Mapping[str, Any], remark: str = ""
) -> None:
    for name, value in values.items():
        if not fits(value):
            raise InputError(f"{_name(owner)}: {name} must {expected}, got {_short(value)}{remark}")


def _name(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def _short(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of more than 40 digits"
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
