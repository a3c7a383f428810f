"""Candidates whose vectors also match words, without another encoding of a text."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor

from sentrep.adaptation.preparation import Remembered
from sentrep.encoder import LexicalFeatures, SentenceEncoder, with_lexical
from sentrep.encoder.encode import pad
from sentrep.encoder.lexical import mixture

WEIGHTS = (0.1, 0.2)
"""Weights of the lexical part to try. Tasks from the text's own words favour it; larger weights are less certain
(docs/results.md)."""
_BLOCK = 256


class WithWords:
    """Vectors of a candidate followed by lexical features, which have a weight.

    Args:
        candidate: the model.
        module: of `fit_lexical`.
        weight: of the lexical part.
    """

    def __init__(self, candidate: Remembered, module: LexicalFeatures, weight: float) -> None:
        self.candidate, self.module, self.weight = candidate, module, weight

    @property
    def encoder(self) -> SentenceEncoder:
        """A new encoder with these vectors, for the export."""
        return with_lexical(deepcopy(self.candidate.encoder), self.module, self.weight)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """(n, D + m) float32, on the CPU."""
        encoder = self.candidate.encoder
        ids, _ = encoder.tokenize(list(texts), encoder.max_seq_length)
        rows = (pad(ids[start : start + _BLOCK], encoder.tokenize.pad_token_id) for start in range(0, len(ids), _BLOCK))
        words = torch.cat([self.module.lexical(row.input_ids, row.attention_mask) for row in rows])
        return mixture(self.candidate(texts), words, self.weight)
