"""Losses of two encoders, in loops from the papers; rows are lists of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from references.info_nce import info_nce_loop


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
    rows = [slice(None)] if in_batch else [slice(i, i + 1) for i in range(len(queries))]
    losses = [
        info_nce_loop(queries[part], keys[part], temperature, [*range(len(queries[part]))], queue, None, 1.0, 0.0)
        for part in rows
    ]
    return torch.stack(losses).mean()
