"""The spread of a batch."""

from __future__ import annotations

import torch
from torch import Tensor


def deviation(rows: Tensor) -> Tensor:
    """Standard deviation of every dimension over the rows, with N − 1 below (Bessel's correction).

    Args:
        rows: (N, D).

    Returns:
        (D,) of the type of ``rows``; 0 for a single row, which varies in nothing.

    Examples:
        >>> deviation(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
        tensor([1.4142, 0.0000])
    """
    return rows.std(0, correction=1) if len(rows) > 1 else torch.zeros_like(rows[0])
