"""Hardness of drawn negatives in blocks, and at the edges; the contract of samplers compares it with loops."""

from __future__ import annotations

import pytest
import torch

from references import samplers as references
from sentrep.functional.hardness import hardest, hardness


def test_in_blocks_of_rows_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    anchors, keys, drawn = torch.randn(3, 10, 4, generator=torch.Generator().manual_seed(1)).unbind()
    by_row = torch.randn(10, 3, 4, generator=torch.Generator().manual_seed(2))
    whole = hardness(anchors, keys, torch.arange(10), drawn, by_row), hardest(drawn, anchors, 0.5)
    monkeypatch.setattr("sentrep.functional.hardness.rows_at_once", lambda width: 3)
    torch.testing.assert_close(
        (hardness(anchors, keys, torch.arange(10), drawn, by_row), hardest(drawn, anchors, 0.5)), whole
    )
    of_all, of_each = (references.hardness(anchors, keys, one) for one in (drawn, by_row))
    expected = [(10 * a + 3 * b) / 13 for a, b in zip(of_all, of_each, strict=True)]
    assert [value.item() for value in whole[0]] == pytest.approx(expected, abs=1e-6)


def test_anchors_of_one_process_are_compared_with_their_own_rows_of_the_global_batch() -> None:
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    anchor, negative, nothing = keys[1:], torch.tensor([[1.0, 2.0]]), torch.zeros(1, 0, 2)
    assert hardness(anchor, keys, torch.tensor([1]), negative, nothing)[1] == 1  # its own key, nearer, is left out
    assert hardness(anchor, keys, torch.tensor([0]), negative, nothing)[1] == 0


@pytest.mark.parametrize(("share", "drawn", "kept"), [(0.5, 5, 2), (0.01, 5, 1), (0.9, 2, 2), (0.5, 0, 0), (1.0, 3, 3)])
def test_the_number_is_a_share_and_at_least_one(share: float, drawn: int, kept: int) -> None:
    assert hardest(torch.ones(drawn, 3), torch.ones(4, 3), share).shape == (kept, 3)
    assert hardest(torch.ones(4, drawn, 3), torch.ones(4, 3), share).shape == (4, kept, 3)
