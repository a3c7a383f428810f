"""Losses of two encoders, in loops from the papers; rows are lists of tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def contrastive_tension(first: Tensor, second: Tensor, negatives: int) -> Tensor:
    """CT (Carlsson et al. 2021): binary cross-entropy of the dot product of each pair, (s, s) or (s, another)."""
    losses = []
    for i in range(len(first)):
        for k in range(negatives + 1):
            j = (i + k) % len(first)
            product = sum(a * b for a, b in zip(first[i], second[j], strict=True))
            sign = 1 if i == j else -1  # 1 − σ(x) = σ(−x)
            losses.append(-torch.log(1 / (1 + torch.exp(-sign * product))))
    return torch.stack(losses).mean()


def momentum_contrast(queries: Tensor, keys: Tensor, queue: Tensor, temperature: float, in_batch: bool) -> Tensor:
    """MoCo's eq. 1 (He et al. 2020) and, with the batch's other keys, ESimCSE's momentum contrast."""

    def similarity(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y) / (math.sqrt(float(y @ y)) if not y.requires_grad else y.norm()) / x.norm() / temperature

    losses = []
    for i, query in enumerate(queries):
        negatives = [key for j, key in enumerate(keys) if in_batch and j != i] + [*queue]
        positive = torch.exp(similarity(query, keys[i]))
        total = positive + sum(torch.exp(similarity(query, key)) for key in negatives)
        losses.append(-torch.log(positive / total))
    return torch.stack(losses).mean()
