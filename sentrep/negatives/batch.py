"""What several samplers ask of a batch: how many negatives it gets, its sound rows."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks


def count(anchors: Tensor, ratio: float) -> int:
    """M = ``ratio`` × global batch, rounded, at least 1."""
    return max(1, round(ratio * len(anchors)))


def finite_rows(rows: Tensor) -> Tensor:
    """``rows`` (N, D) in float32, those with a NaN, an infinity or an overflowing norm replaced by other rows.

    What a sampler remembers must not be spoilt by one bad batch, and to leave rows out would make the device wait for
    their number. So the sound rows of the same batch stand in for the broken ones, each as often as any other; where no
    row is sound, all are zero.

    Examples:
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


def check_ratio(owner: object, ratio: float) -> None:
    """Refuse a number of negatives, as a multiple of the batch, that no memory holds.

    Raises:
        InputError: names the sampler's class.
    """
    checks.positive(owner, ratio=ratio)
    checks.within(owner, 0, 10_000, open_below=True, ratio=ratio)
