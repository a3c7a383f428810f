from __future__ import annotations

import torch

from references.info_nce import uniformity_loop
from sentrep.objectives import Alignment, Uniformity
from support import bare_views
from unit.objectives.test_readings import NOTHING, assert_equals, vectors


def test_alignment_is_the_distance_of_the_positives() -> None:
    anchor, positive, *_ = vectors()
    distances = [(a / a.norm() - p / p.norm()).pow(2).sum() for a, p in zip(anchor, positive, strict=True)]
    loss = Alignment()(bare_views(anchor, positive), NOTHING)
    assert_equals(loss, torch.stack(distances).mean(), anchor, positive)


def test_uniformity_is_the_mean_over_both_views() -> None:
    anchor, positive, *_ = vectors()
    expected = (uniformity_loop(anchor) + uniformity_loop(positive)) / 2
    assert_equals(Uniformity()(bare_views(anchor, positive), NOTHING), expected, anchor, positive)
