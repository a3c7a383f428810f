"""Vectors from which no score can be computed are refused."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sentrep.errors import InputError

Vectors = NDArray[np.float32]


def check_vectors(vectors: Vectors, name: str) -> None:
    """Refuse the vectors (N, D) of a set from which no score can be computed.

    Raises:
        InputError: a vector is not finite, or all are equal: a score would depend on the breaking of ties alone.
    """
    if broken := int((~np.isfinite(vectors)).any(1).sum()):
        raise InputError(f"{name}: {broken} of {len(vectors)} vectors are NaN or infinite; the encoder is broken")
    if len(vectors) > 1 and np.ptp(vectors, axis=0).max() == 0:
        raise InputError(f"{name}: all {len(vectors)} vectors are equal; the encoder has collapsed")
