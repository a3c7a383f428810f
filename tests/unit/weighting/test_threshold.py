from __future__ import annotations

import pytest
import torch

from sentrep.weighting.threshold import _weights, removed


def test_the_threshold_itself_is_masked() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert _weights(x[:1], x, 0.0).tolist() == [[0.0, 0.0, 1.0]]


def test_what_is_removed_leaves_the_positive_out() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.5], [1.0, 0.0, 1.0, 1.0, 1.0]])
    shares = removed(weights, keys=3)
    assert shares["masked"].item() == pytest.approx(1 / 4)
    assert shares["masked_extra"].item() == pytest.approx(0.5 / 4)
    assert removed(torch.ones(1, 1), keys=1) == {}
    assert removed(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), keys=2)["masked"].item() == pytest.approx(1 / 2)
