from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sentrep.data import Collate, TokenRows


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=6), st.integers(1, 3))
def test_padding_on_the_right_and_nothing_else(sentences: list[list[int]], columns: int) -> None:
    lists = [[np.array(ids[: len(ids) - n] or ids, np.int32) for ids in sentences] for n in range(columns)]
    rows = TokenRows(10 * np.arange(len(sentences)), lists)
    batch = Collate(pad_token_id=-7)(rows)
    parts = [batch.anchor, batch.positive, batch.negative]
    assert [part is not None for part in parts] == [column < columns for column in range(3)]
    assert batch.rows.tolist() == rows.rows.tolist()
    for column, part in enumerate(parts[:columns]):
        assert part is not None
        assert part.input_ids.dtype == part.attention_mask.dtype == torch.int64
        assert part.lengths.tolist() == part.attention_mask.sum(1).tolist()
        assert part.input_ids.shape[1] == max(map(len, lists[column]))
        for expected, ids, mask in zip(lists[column], part.input_ids, part.attention_mask, strict=True):
            length = len(expected)
            assert ids[:length].tolist() == expected.tolist()
            assert set(ids[length:].tolist()) <= {-7}
            assert mask.tolist() == [1] * length + [0] * (len(mask) - length)
