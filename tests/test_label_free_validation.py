"""Validation on held-out sentences changes nothing in the training, and chooses a checkpoint without labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

from sentrep import SentRepDataModule, SentRepModule
from sentrep.evaluation import TrainingReport
from sentrep.evaluation.label_free import CRITERIA, label_free_criteria
from sentrep.objectives import Contrastive
from support import quiet_trainer, tiny_encoder, toy_sentences

pytestmark = pytest.mark.filterwarnings("ignore")  # lightning comments on folders and the tiny model


@pytest.fixture
def data(tmp_path: Path) -> SentRepDataModule:
    (tmp_path / "train.txt").write_text("\n".join(toy_sentences(60)) + "\n", encoding="utf-8")
    return SentRepDataModule(str(tmp_path / "train.txt"), batch_size=8, seed=0, held_out=12)


def module() -> SentRepModule:
    return SentRepModule(tiny_encoder(dropout=0.1), [Contrastive()], seed=0, scheduler="constant")


def trainer(folder: Path, *callbacks: lightning.Callback, **options: Any) -> lightning.Trainer:
    defaults = {
        "max_steps": 6, "val_check_interval": 2, "check_val_every_n_epoch": None, "log_every_n_steps": 2,
        "num_sanity_val_steps": 0, "enable_checkpointing": any(isinstance(c, ModelCheckpoint) for c in callbacks),
    }  # fmt: skip
    return quiet_trainer(callbacks=list(callbacks), default_root_dir=folder, **{**defaults, **options})


def test_weights_are_the_same_with_and_without_the_validation(tmp_path: Path, data: SentRepDataModule) -> None:
    watched, alone = module(), module()
    run = trainer(tmp_path)
    run.fit(watched, data)
    assert {f"val/{name}" for name in CRITERIA} <= run.callback_metrics.keys()
    trainer(tmp_path, limit_val_batches=0).fit(alone, data)
    assert all(torch.equal(one, two) for one, two in zip(watched.parameters(), alone.parameters(), strict=True))


def test_a_checkpoint_is_chosen_without_labels_and_the_run_says_so(
    tmp_path: Path, data: SentRepDataModule, capsys: pytest.CaptureFixture[str]
) -> None:
    report = TrainingReport()
    saver = ModelCheckpoint(tmp_path / "checkpoints", monitor="val/uniformity", mode="min", save_last=True)
    model = module()
    data.connect(model.encoder.tokenize, model.encoder.max_length)
    data.setup("fit")
    assert data.held_out_sentences is not None
    before = label_free_criteria(model.encoder, data.held_out_sentences.ids)
    trainer(tmp_path, report, saver).fit(model, data)
    out = capsys.readouterr().out
    for name in CRITERIA:
        assert list(report.history[f"val/{name}"].dropna().index) == [0, 2, 4, 6]
        assert report.history[f"val/{name}"][0] == pytest.approx(before[name], rel=1e-6)
    best = report.history["val/uniformity"].dropna().loc[1:].idxmin()
    assert f"Step {best} was chosen by its val/uniformity; no labels were used, and none for training." in out
    assert any(line.split()[:2] == ["retrieval@1", "12"] for line in out.splitlines())
    written = json.loads((tmp_path / "selection.json").read_text())
    assert (written["step"], written["monitor"], written["labels"]) == (best, "val/uniformity", [])
    assert written["reason"] in out
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    assert [row["step"] for row in rows] == ["0", "2", "4", "6"]
    for row in rows:
        course = report.history["val/retrieval@1"]
        assert float(row["val/retrieval@1"]) == course[int(row["step"])]
        assert bool(row["train/loss"]) == (row["step"] != "0")


def test_labels_that_end_the_training_are_named(
    tmp_path: Path, data: SentRepDataModule, capsys: pytest.CaptureFixture[str]
) -> None:
    data.val = ["toy-dev"]
    trainer(tmp_path, TrainingReport(), EarlyStopping("val/sts", mode="max"), max_steps=2).fit(module(), data)
    out = capsys.readouterr().out
    assert "The last step, 2, was kept, and val/sts could end the training; the gold scores of toy dev were used" in out
    assert json.loads((tmp_path / "selection.json").read_text())["labels"] == ["toy-dev"]


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path, data: SentRepDataModule) -> None:
    whole, second = module(), module()
    saver = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=3, save_top_k=-1)
    trainer(tmp_path, saver).fit(whole, data)
    trainer(tmp_path).fit(second, data, ckpt_path=tmp_path / "step=3.ckpt", weights_only=True)
    assert not torch.equal(next(second.parameters()), next(module().parameters()))
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), second.parameters(), strict=True))


def test_a_weighted_term_is_logged_where_it_is_another_number(tmp_path: Path, data: SentRepDataModule) -> None:
    terms = {"one": Contrastive(), "two": Contrastive(temperature=0.2)}
    model = SentRepModule(tiny_encoder(dropout=0.1), terms, weights={"two": 0.25}, seed=0)
    run = trainer(tmp_path, max_steps=2)
    run.fit(model, data)
    logged = {name: float(value) for name, value in run.callback_metrics.items()}
    assert logged["train/two/weighted"] == pytest.approx(0.25 * logged["train/two"])
    assert "train/one/weighted" not in logged
    assert logged["train/loss"] == pytest.approx(logged["train/one"] + logged["train/two/weighted"])
