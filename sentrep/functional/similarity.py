"""Cosine similarity in float32."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def unit(x: Tensor) -> Tensor:
    """Rows of ``x`` (..., D) scaled to length 1, in float32; a zero row stays zero."""
    return F.normalize(x.float(), dim=-1)


def cosine_similarity_matrix(x: Tensor, y: Tensor) -> Tensor:
    """Cosine of every row of ``x`` with every row of ``y``.

    Args:
        x: (N, D), any floating type.
        y: (K, D).

    Returns:
        (N, K) float32 in [-1, 1]; 0 where a row has length zero. Autocast is switched off inside.

    Example:
        >>> cosine_similarity_matrix(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]]))
        tensor([[0., 1.]])
    """
    with torch.autocast(x.device.type, enabled=False):
        return unit(x) @ unit(y).T
