"""Cosine similarity in float32 (or float64, where the input is)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LARGEST_MATRIX = 2**24
"""Similarities that a loss holds at once unless it is told otherwise (4,096 × 4,096, 64 MiB); above it, in blocks."""


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` itself in float32 or float64, half precisions in float32."""
    return x if x.dtype == torch.float64 else x.float()


def unit(x: Tensor) -> Tensor:
    """Rows of ``x`` (..., D) scaled to length 1, in float32 or float64; a zero row stays zero."""
    return F.normalize(at_least_float32(x), dim=-1)


def cosine_similarity_matrix(x: Tensor, y: Tensor) -> Tensor:
    """Cosine of every row of ``x`` with every row of ``y``.

    Args:
        x: (N, D), any floating type.
        y: (K, D).

    Returns:
        (N, K) in [-1, 1], float32 (float64 for float64 input); 0 where a row has length zero. No autocast inside.

    Examples:
        >>> cosine_similarity_matrix(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]]))
        tensor([[0., 1.]])
    """
    with torch.autocast(x.device.type, enabled=False):
        return unit(x) @ unit(y).T
