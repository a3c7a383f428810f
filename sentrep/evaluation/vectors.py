"""Vectors of the texts of an evaluation set: each distinct text is encoded once, and broken vectors are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError

Vectors = NDArray[np.float32]


def encode_texts(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    name: str,
    batch_size: int,
    show_progress_bar: bool | None,
) -> Vectors:
    """Vectors (N, D) of N texts, each distinct text encoded once.

    Args:
        encoder: anything with `SentenceEncoder.encode`.
        texts: in any order, repeated or not.
        name: of the set, for the message.
        batch_size: as in `SentenceEncoder.encode`.
        show_progress_bar: likewise.

    Raises:
        InputError: see `check_vectors`.
    """
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = np.asarray(encoder.encode(list(rows), batch_size=batch_size, show_progress_bar=show_progress_bar))
    check_vectors(vectors, name)
    return vectors if len(rows) == len(texts) else vectors[[rows[text] for text in texts]]


def check_vectors(vectors: Vectors, name: str) -> None:
    """Refuse the vectors (N, D) of a set from which no score can be computed.

    Raises:
        InputError: a vector is not finite, or all are equal: a score would depend on the breaking of ties alone.
    """
    if broken := int((~np.isfinite(vectors)).any(1).sum()):
        raise InputError(f"{name}: {broken} of {len(vectors)} vectors are NaN or infinite; the encoder is broken")
    if len(vectors) > 1 and np.ptp(vectors, axis=0).max() == 0:
        raise InputError(f"{name}: all {len(vectors)} vectors are equal; the encoder has collapsed")
