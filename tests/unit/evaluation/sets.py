"""Small sets and encoders whose vectors are known, for the tests of the suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch


class TableEncoder:
    """Looks vectors up, and remembers what it was asked for, call by call."""

    device = torch.device("cpu")

    def __init__(self, vectors: Mapping[str, np.ndarray]) -> None:
        self.vectors = vectors
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str], **_: object) -> np.ndarray:
        self.calls.append(list(texts))
        return np.stack([self.vectors[text] for text in texts]).astype(np.float32)
