"""Whether labels had a part in the choice of a checkpoint."""

from __future__ import annotations

import pytest
from lightning.pytorch.callbacks import EarlyStopping

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation.selection import Selection
from support import quiet_trainer


@pytest.mark.parametrize(
    ("criterion", "labels"),
    [
        ("val/mine/trec", ("mine/trec",)),  # of the user's callback
        ("val/dev/alignment", ("dev",)),  # of the pairs with a high gold score
        ("val/dev/alignment_all", ()),  # of all pairs, whatever their gold scores
        ("val/dev/uniformity", ()),
        ("val/dev/uniformity_first", ()),
    ],
)
def test_the_sets_whose_labels_chose_are_named(criterion: str, labels: tuple[str, ...]) -> None:
    run = quiet_trainer(callbacks=[EarlyStopping(criterion)], max_steps=1)
    assert Selection.of(run, [ScoredPairs("dev", ["a"], ["b"], [1.0])]).labels == labels
