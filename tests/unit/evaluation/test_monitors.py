"""The monitor warns of a real collapse, once, and keeps quiet otherwise."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sentrep import SentRepDataModule, SentRepModule, TextBatch, Views
from sentrep.evaluation import CollapseMonitor
from sentrep.functional import alignment, cosine_similarity_matrix
from sentrep.objectives import Contrastive, Objective
from support import quiet_trainer, tiny_encoder, toy_sentences


class Attraction(Objective):
    """Pulls all sentences together: the surest way to collapse."""

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        return alignment(views.anchor, views.positive) - cosine_similarity_matrix(views.anchor, views.positive).mean()


class Broken(Objective):
    """Gives NaN, but for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, views: Views, batch: TextBatch) -> Tensor:
        loss, self.factor = views.anchor.sum() * self.factor, float("nan")
        return loss


def warnings_of(
    objective: Objective, monitor: CollapseMonitor, tmp_path: Path, batch_size: int = 8, dropout: float = 0.1
) -> list[str]:
    data = SentRepDataModule(toy_sentences(64), batch_size=batch_size)
    module = SentRepModule(tiny_encoder(dropout=dropout, pooling="mean"), [objective], scheduler="constant", seed=0)
    module.optimizer = lambda groups: torch.optim.AdamW(groups, lr=2e-2 if isinstance(objective, Attraction) else 1e-3)
    trainer = quiet_trainer(max_steps=12, log_every_n_steps=2, callbacks=[monitor], default_root_dir=tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(module, data)
    return [str(w.message) for w in caught if "collapsed" in str(w.message)]


def test_a_collapse_is_reported_once_with_what_to_try(tmp_path: Path) -> None:
    monitor = CollapseMonitor(grace_steps=4)
    (message,) = warnings_of(Attraction(), monitor, tmp_path, dropout=0.0)
    assert "different sentences have a mean cosine of" in message
    assert "lasted 3 log steps" in message
    assert "learning rate" in message
    assert monitor.collapsed


def test_a_collapse_is_seen_through_the_noise_of_dropout(tmp_path: Path) -> None:
    monitor = CollapseMonitor(max_negative_cosine=1.0, grace_steps=4)
    (message,) = warnings_of(Attraction(), monitor, tmp_path)
    assert "no nearer to its positive" in message


def test_a_healthy_run_is_left_alone(tmp_path: Path) -> None:
    monitor = CollapseMonitor(grace_steps=4)
    assert warnings_of(Contrastive(), monitor, tmp_path, dropout=0.01) == []
    assert not monitor.collapsed


def test_the_start_of_a_run_is_not_judged(tmp_path: Path) -> None:
    assert warnings_of(Attraction(), CollapseMonitor(grace_steps=12), tmp_path) == []


def test_a_loss_that_is_not_a_number_is_reported_at_once(tmp_path: Path) -> None:
    (message,) = warnings_of(Broken(), CollapseMonitor(), tmp_path)
    assert "the loss is nan at step 2" in message


@pytest.mark.parametrize(("rows", "expected"), [(8, 1), (4, 0)])
def test_a_low_rank_is_judged_in_batches_that_could_have_a_higher_one(tmp_path: Path, rows: int, expected: int) -> None:
    monitor = CollapseMonitor(min_margin=-1.0, max_negative_cosine=1.0, min_effective_rank=100.0, grace_steps=4)
    messages = warnings_of(Contrastive(), monitor, tmp_path, batch_size=rows)
    assert len(messages) == expected
    assert all("dimensions only" in message for message in messages)
