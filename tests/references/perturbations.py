"""Perturbations of positives by their definitions, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def masked_features_loop(x: Tensor, rate: float, largest: bool, signed: bool = False) -> Tensor:
    """Thesis, 4.1.1: the 10 % dimensions of smallest (largest) absolute (R: signed) value set to 0."""
    out = x.clone()
    for row in range(len(x)):
        entries = [float(entry) if signed else abs(float(entry)) for entry in x[row]]
        in_order = sorted(range(x.shape[1]), key=entries.__getitem__, reverse=largest)
        for dimension in in_order[: math.floor(rate * x.shape[1])]:
            out[row, dimension] = 0.0
    return out


def fgsm_loop(x: Tensor, loss: Callable[[Tensor], Tensor], epsilon: float, step: float = 1e-5) -> Tensor:
    """Goodfellow et al. 2014: x + ε sign(∂L/∂x), the derivative by central differences. Wants float64."""
    out = x.clone()
    for index in torch.cartesian_prod(*[torch.arange(n) for n in x.shape]):
        place = tuple(index.tolist())
        up, down = x.clone(), x.clone()
        up[place] += step
        down[place] -= step
        slope = float(loss(up) - loss(down)) / (2 * step)
        out[place] += epsilon * math.copysign(1.0, slope)
    return out


def erased_tokens(before: Tensor, after: Tensor) -> list[list[int]]:
    """For each sentence the positions that were zeroed; every other position must be as it was."""
    erased: list[list[int]] = []
    for row in range(len(before)):
        erased.append([])
        for position in range(before.shape[1]):
            if torch.equal(after[row, position], torch.zeros_like(after[row, position])):
                erased[-1].append(position)
            else:
                assert torch.equal(after[row, position], before[row, position])
    return erased
