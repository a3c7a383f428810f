from __future__ import annotations

import pytest
import torch

from references.info_nce import uniformity_loop
from sentrep import Views
from sentrep.objectives import Alignment, Uniformity


def views(count: int) -> Views:
    anchor, positive = (torch.randn(count, 6, requires_grad=True) for _ in range(2))
    return Views(anchor, positive, None, None, None)  # type: ignore[arg-type]


def test_alignment_is_the_distance_of_the_positives() -> None:
    x = views(5)
    expected = torch.stack(
        [(a / a.norm() - p / p.norm()).pow(2).sum() for a, p in zip(x.anchor, x.positive, strict=True)]
    ).mean()
    torch.testing.assert_close(Alignment()(x, batch=None), expected)  # type: ignore[arg-type]


def test_uniformity_is_the_mean_over_both_views() -> None:
    x = views(5)
    expected = (uniformity_loop(x.anchor.detach().double()) + uniformity_loop(x.positive.detach().double())) / 2
    assert Uniformity()(x, batch=None).item() == pytest.approx(expected, abs=1e-5)  # type: ignore[arg-type]
