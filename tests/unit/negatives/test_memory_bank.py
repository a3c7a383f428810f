"""The bank against a list."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samplers import WIDTH, advance, built, embeddings


@settings(max_examples=80, deadline=None)
@given(size=st.integers(1, 9), batches=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_holds_the_newest_outputs_and_no_others(size: int, batches: list[int]) -> None:
    bank, past = built("bank", size=size), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step, rows in enumerate(batches):
            anchors = embeddings(step, rows)[0]
            advance(bank, anchors)
            past = (past + [tuple(row.tolist()) for row in anchors])[-size:]
            held = bank.sample(*embeddings())
            assert held.shape == (len(past), WIDTH)
            assert sorted(tuple(row.tolist()) for row in held) == sorted(past)


def test_a_bank_smaller_than_the_batch_says_so_once() -> None:
    bank = built("bank", stream="past", size=3)
    with pytest.warns(UserWarning, match="MemoryBank 'past' has 3 rows, fewer than the global batch of 8"):
        advance(bank, embeddings(0)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advance(bank, embeddings(1)[0])
    assert torch.equal(bank.sample(*embeddings()), embeddings(1)[0][-3:].roll(bank.pointer, 0))
