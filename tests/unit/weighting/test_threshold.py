from __future__ import annotations

from typing import Any

import pytest
import torch

from sentrep.weighting.threshold import Threshold, removed

COSINES = torch.linspace(-1, 1, 41)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_weights_fall_from_one_to_zero(kind: Any) -> None:
    weights = Threshold(0.4, kind)(COSINES)
    assert ((weights >= 0) & (weights <= 1)).all()
    assert (weights.diff() <= 0).all()
    assert weights[0] > 0.999
    assert weights[-1] < 0.001


def test_the_threshold_itself_is_masked() -> None:
    assert Threshold(0.5)(torch.tensor([0.4999, 0.5, 0.5001])).tolist() == [1.0, 0.0, 0.0]


def test_soft_weights_tend_to_hard_ones() -> None:
    off_threshold = COSINES[(COSINES - 0.4).abs() > 0.01]
    soft = Threshold(0.4, "soft", softness=1e-4)(off_threshold)
    torch.testing.assert_close(soft, Threshold(0.4)(off_threshold))
    assert Threshold(0.4, "soft")(torch.tensor(0.4)).item() == pytest.approx(0.5)


def test_what_is_removed_leaves_the_positive_out() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.5], [1.0, 0.0, 1.0, 1.0, 1.0]])
    shares = removed(weights, keys=3)
    assert shares["masked"].item() == pytest.approx(1 / 4)
    assert shares["masked_extra"].item() == pytest.approx(0.5 / 4)
    assert removed(torch.ones(1, 1), keys=1) == {}
    assert removed(torch.tensor([[1.0, 0.0], [1.0, 1.0]]), keys=2)["masked"].item() == pytest.approx(1 / 2)
