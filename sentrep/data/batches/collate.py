"""Rows of token ids → one padded training batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sentrep.data.tokens import TokenRows
from sentrep.types import TextBatch, TokenBatch


class Collate:
    """Pads rows on the right, each column to its longest sentence in the batch.

    Args:
        pad_token_id: what to pad with.

    Examples:
        >>> rows = TokenRows(np.array([7, 3]), [[np.array([1, 5, 2]), np.array([1, 2])]])
        >>> batch = Collate(pad_token_id=0)(rows)
        >>> batch.anchor.input_ids.tolist(), batch.anchor.attention_mask.tolist(), batch.rows.tolist()
        ([[1, 5, 2], [1, 2, 0]], [[1, 1, 1], [1, 1, 0]], [7, 3])
    """

    def __init__(self, pad_token_id: int) -> None:
        self.pad_token_id = pad_token_id

    def __call__(self, rows: TokenRows) -> TextBatch:
        anchor, positive, negative = (*map(self._pad, rows.columns), None, None)[:3]
        assert anchor is not None
        return TextBatch(anchor, positive, negative, rows=torch.from_numpy(rows.rows))

    def _pad(self, sentences: Sequence[NDArray[np.int32]]) -> TokenBatch:
        lengths = np.array([len(ids) for ids in sentences])
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, self.pad_token_id, np.int64)
        ids[mask] = np.concatenate(sentences)
        return TokenBatch(torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64)), lengths)
