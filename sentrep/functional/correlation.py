"""Rank correlation; constant or non-finite values are refused."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor


def spearman(predicted: Tensor | ArrayLike, gold: Tensor | ArrayLike) -> float:
    """Spearman's rank correlation × 100, ties at their mean rank.

    Args:
        predicted: (P,) scores.
        gold: (P,) gold scores.

    Returns:
        A number in [−100, 100].

    Raises:
        ValueError: where the correlation does not exist: a NaN or infinite score, scores that are all equal, fewer
            than two pairs, or lengths that differ. Libraries return a number for some of these.

    Examples:
        >>> spearman([0.1, 0.4, 0.3], [1, 3, 2])
        100.0
    """
    import scipy.stats  # half a second of import time that only its users should pay

    x, y = (np.asarray(values, dtype=np.float64).ravel() for values in (predicted, gold))
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"Spearman needs two lists of one length, at least 2; got {len(x)} and {len(y)} scores")
    for name, values in (("predicted", x), ("gold", y)):
        if not np.isfinite(values).all():
            raise ValueError(f"{(~np.isfinite(values)).sum()} of {len(values)} {name} scores are NaN or infinite")
        if np.ptp(values) == 0:
            raise ValueError(f"all {len(values)} {name} scores equal {values[0]:g}: no rank correlation exists")
    return 100.0 * float(scipy.stats.spearmanr(x, y).statistic)
