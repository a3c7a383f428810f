"""What several samplers ask of a batch: how many negatives it gets, its spread, its sound rows; and of their values."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sentrep.errors import InputError


def count(anchors: Tensor, ratio: float) -> int:
    """M = ``ratio`` × global batch, rounded, at least 1."""
    return max(1, round(ratio * len(anchors)))


def deviation(anchors: Tensor) -> Tensor:
    """Standard deviation (D,) of every dimension over the rows of ``anchors`` (N, D), N ≥ 2, with N − 1 below."""
    return anchors.std(0, correction=1)


def finite_rows(rows: Tensor) -> Tensor:
    """``rows`` (N, D) in float32, those with a NaN, an infinity or an overflowing norm replaced by other rows.

    What a sampler remembers must not be spoilt by one bad batch, and to leave rows out would make the device wait for
    their number. So the sound rows of the same batch stand in for the broken ones, each as often as any other; where no
    row is sound, all are zero.

    Example:
        >>> finite_rows(torch.tensor([[1.0], [torch.nan], [3.0]]))
        tensor([[1.],
                [1.],
                [3.]])
    """
    rows = rows.float()
    sound = rows.square().sum(1).isfinite()
    number = torch.arange(len(rows), device=rows.device)
    sound_first = torch.argsort(sound.to(torch.int8), descending=True, stable=True)
    broken_before = (~sound).cumsum(0) - 1
    stand_in = sound_first[broken_before.clamp_min(0) % sound.sum().clamp_min(1)]
    rows = rows[torch.where(sound, number, stand_in)]
    return torch.where(sound.any(), rows, torch.zeros_like(rows))


def check_positive(owner: object, **values: float) -> None:
    """Refuse values that are not positive and finite, by name.

    Raises:
        InputError: names the sampler's class, the argument and its value.
    """
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise InputError(f"{type(owner).__name__}: {name} must be positive and finite, got {value}")


def check_at_least(least: int, owner: object, **values: int) -> None:
    """Refuse numbers below ``least``, by name.

    Raises:
        InputError: names the sampler's class, the argument and its value.
    """
    for name, value in values.items():
        if value < least:
            raise InputError(f"{type(owner).__name__}: {name} must be {least} or more, got {value}")


def check_choice(owner: object, choices: tuple[Any, ...], **values: Any) -> None:
    """Refuse a value that is none of ``choices``, by name.

    Raises:
        InputError: names the sampler's class, the argument, its value and the choices.
    """
    for name, value in values.items():
        if value not in choices:
            expected = " or ".join(map(repr, choices))
            raise InputError(f"{type(owner).__name__}: {name} must be {expected}, got {value!r}")
