"""The report of real, tiny runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from sentence_transformers import SentenceTransformer

from sentrep import SentenceEncoder, SentRepDataModule, SentRepModule
from sentrep.data import PairsFile
from sentrep.evaluation import evaluate_sts
from sentrep.objectives import Contrastive
from sentrep.training import BestCheckpoint, RunReport
from support import quiet_trainer, tiny_encoder, toy_sentences


@pytest.fixture
def data(tmp_path: Path) -> SentRepDataModule:
    """Forty sentences to train on, two sets of pairs."""
    sentences = toy_sentences(80)
    (tmp_path / "train.txt").write_text("\n".join(sentences[:40]) + "\n", encoding="utf-8")
    for number, name in enumerate(("first", "second")):
        rows = [
            f"{a}\t{b}\t{(i * 7 + number) % 11}"
            for i, (a, b) in enumerate(zip(sentences, sentences[20:], strict=False))
        ]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]), encoding="utf-8")
    sets: list[str | PairsFile] = [str(tmp_path / "first.tsv"), str(tmp_path / "second.tsv")]
    return SentRepDataModule(str(tmp_path / "train.txt"), val=sets, test=sets, batch_size=8, seed=0)


def make_module() -> SentRepModule:
    return SentRepModule(tiny_encoder(dropout=0.1), [Contrastive()], seed=0)


def make_trainer(tmp_path: Path, report: RunReport, monitor: str | None = "val/sts", **options: Any) -> Trainer:
    saver = ModelCheckpoint(tmp_path / "checkpoints", monitor=monitor, mode="max", save_last=True)
    defaults = {"max_steps": 8, "val_check_interval": 2, "log_every_n_steps": 2, "callbacks": [report, saver],
                "logger": CSVLogger(str(tmp_path), name="", version="run"), "enable_checkpointing": True}  # fmt: skip
    return quiet_trainer(num_sanity_val_steps=1, check_val_every_n_epoch=None, **{**defaults, **options})


def steps_of(report: RunReport, metric: str) -> list[int]:
    """The steps at which a metric has a value."""
    return list(report.history[metric].dropna().index)


def test_a_run_ends_with_before_and_after_the_model_and_the_picture(
    tmp_path: Path, data: SentRepDataModule, curves: None, capsys: pytest.CaptureFixture[str]
) -> None:
    module, report = make_module(), RunReport()
    trainer = make_trainer(tmp_path, report)
    data.setup("validate")
    before = {result.name: result.main_score for result in evaluate_sts(module.encoder, data.val_sets)}
    trainer.fit(module, data)
    out = capsys.readouterr().out

    assert steps_of(report, "val/first") == [0, 2, 4, 6, 8]
    assert report.history["val/first"][0] == pytest.approx(before["first"], abs=1e-4)
    assert report.history["val/sts"][0] == pytest.approx((before["first"] + before["second"]) / 2, abs=1e-4)
    for measure in ("alignment", "uniformity"):
        assert steps_of(report, f"val/first/{measure}") == [0, 2, 4, 6, 8]
    for metric in ("loss", "alignment", "uniformity", "contrastive"):
        assert steps_of(report, f"train/{metric}") == [2, 4, 6, 8]

    scores_by_step = report.history["val/sts"].dropna().loc[1:]
    best_step, best = scores_by_step.idxmax(), scores_by_step.max()
    exported = SentenceEncoder.from_pretrained(tmp_path / "run" / "model")
    scores = [result.main_score for result in evaluate_sts(exported, data.val_sets)]
    assert sum(scores) / 2 == pytest.approx(best, abs=1e-3)  # the best step's encoder, not the last one's
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000

    lines = [line.split() for line in out.splitlines() if line.strip()]
    row = next(line for line in lines if line[0] == "first")
    after = report.history["val/first"][best_step]
    change = f"{after - report.history['val/first'][0]:+.2f}"
    assert row == ["first", "60", "pairs", "file", f"{before['first']:.2f}", f"{after:.2f}", change]
    course = report.history["val/first/uniformity"]
    cells = [f"{value:.4f}" for value in (course[0], course[best_step])]
    assert ["uniformity", *cells, f"{course[best_step] - course[0]:+.4f}"] in lines
    assert f"Step {best_step} was chosen by its val/sts; the gold scores of first, second were used" in out
    assert str(tmp_path / "run" / "model") in out  # whole, however long
    assert trainer.checkpoint_callback.best_model_path in out  # type: ignore[union-attr]
    assert "toy" not in out.replace(str(tmp_path), "")


def test_before_is_the_model_as_its_folder_pools_it(
    tmp_path: Path, data: SentRepDataModule, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_encoder(pooling="mean", dropout=0.1).save_pretrained(tmp_path / "start")
    data.setup("validate")
    own = SentenceEncoder.from_pretrained(tmp_path / "start")
    before = sum(result.main_score for result in evaluate_sts(own, data.val_sets)) / 2
    report = RunReport()
    module = SentRepModule(SentenceEncoder(str(tmp_path / "start"), pooling="cls"), [Contrastive()], seed=0)
    make_trainer(tmp_path, report, max_steps=2).fit(module, data)
    out = capsys.readouterr().out
    course = report.history["val/sts"]
    assert report.history["untouched/sts"].dropna().to_dict() == {0: pytest.approx(before, abs=1e-4)}
    assert f"This run replaced its own pooling (mean) by cls, and so began at {course[0]:.2f}." in out
    mean = next(line.split() for line in out.splitlines() if line.strip().startswith("mean"))
    assert mean[1:] == [f"{before:.2f}", f"{course[2]:.2f}", f"{course[2] - before:+.2f}"]
    assert ("BELOW THE UNTOUCHED MODEL" in out) == (course[2] < before)
    again = RunReport()
    again.load_state_dict(report.state_dict())
    assert again.state_dict() == report.state_dict()


def read_metrics(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "metrics.csv", index_col="step", float_precision="round_trip")


class Reader(Callback):
    """What a process that is killed at a step would leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: list[list[int]] = []

    def on_train_batch_end(self, *_: Any) -> None:
        metrics = read_metrics(self.folder)
        self.found.append(list(metrics["train/loss"].dropna().index) if "train/loss" in metrics else [])


def test_every_logged_step_is_on_disk_without_any_validation(tmp_path: Path, data: SentRepDataModule) -> None:
    def trained(steps: int, **options: Any) -> tuple[RunReport, list[list[int]]]:
        report, reader = RunReport(), Reader(tmp_path)
        trainer = make_trainer(tmp_path, report, callbacks=[report, reader], max_steps=steps, limit_val_batches=0,
                               logger=False, default_root_dir=tmp_path, enable_checkpointing=False)  # fmt: skip
        trainer.fit(make_module(), data, **options)
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        return report, reader.found

    _, found = trained(5)
    assert found == [[], [2], [2], [2, 4], [2, 4]]
    (tmp_path / "metrics.csv").write_text("step,train/loss\n2,1.0\n4,1.0\n6,1.0\n")  # of after the checkpoint
    report, found = trained(9, ckpt_path=tmp_path / "last.ckpt", weights_only=True)
    assert found == [[2, 4, 6], [2, 4, 6], [2, 4, 6, 8], [2, 4, 6, 8]]
    pd.testing.assert_frame_equal(read_metrics(tmp_path), report.history)


def test_validations_change_nothing_in_the_training(tmp_path: Path, data: SentRepDataModule) -> None:
    modules = [make_module(), make_module()]
    for module, share in zip(modules, (1.0, 0), strict=True):
        report = RunReport()
        make_trainer(
            tmp_path, report, callbacks=[report], enable_checkpointing=False, max_steps=4, limit_val_batches=share
        ).fit(module, data)
    watched, alone = (module.parameters() for module in modules)
    assert all(torch.equal(one, two) for one, two in zip(watched, alone, strict=True))


def test_without_checkpoints_the_trained_encoder_itself_is_exported(
    tmp_path: Path, data: SentRepDataModule, capsys: pytest.CaptureFixture[str]
) -> None:
    module, report = make_module(), RunReport()
    make_trainer(tmp_path, report, callbacks=[report], enable_checkpointing=False, max_steps=2).fit(module, data)
    exported = SentenceEncoder.from_pretrained(tmp_path / "run" / "model").encode(["ka mi"])
    assert exported == pytest.approx(module.encoder.eval().encode(["ka mi"]), abs=1e-6)
    assert "checkpoint  none was written" in capsys.readouterr().out


def test_a_trial_run_writes_nothing(tmp_path: Path, data: SentRepDataModule) -> None:
    make_trainer(tmp_path, RunReport(), fast_dev_run=True).fit(make_module(), data)
    assert not (tmp_path / "run").exists()


def test_a_tie_is_no_choice_and_early_stopping_says_why(
    tmp_path: Path, data: SentRepDataModule, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    report = RunReport()
    stopper = EarlyStopping("val/sts", mode="max", patience=2)
    module = SentRepModule(tiny_encoder(), [Contrastive()], optimizer=partial(torch.optim.SGD, lr=0.0), seed=0)
    callbacks = [report, stopper, BestCheckpoint(dirpath=tmp_path / "checkpoints")]
    with caplog.at_level("INFO", logger="lightning.pytorch.utilities.rank_zero"):
        make_trainer(tmp_path, report, callbacks=callbacks, max_steps=8).fit(module, data)
    assert "stopped early after step 6: Monitored metric val/sts did not improve in the last 2 records." in caplog.text
    assert "All steps had the same val/sts; the first one, 2, was kept." in capsys.readouterr().out


def test_the_model_card_says_how_the_model_was_trained(tmp_path: Path, data: SentRepDataModule, curves: None) -> None:
    make_trainer(tmp_path, RunReport(), max_steps=4).fit(make_module(), data)
    model = tmp_path / "run" / "model"
    card = (model / "README.md").read_text(encoding="utf-8")
    training = card.partition("## Training with sentrep")[2].partition("## Citation")[0]
    for words in (
        *("random weights of a bert model", "train.txt", " of 4\n", "contrastive (Contrastive, weight 1): InfoNCE"),
        *("SimCSE, eq. 1", "| first ", "gold scores of first, second were used for this choice"),
    ):
        assert words in training
    assert str(tmp_path) not in card
    SentenceTransformer(str(model), device="cpu").save_pretrained(str(tmp_path / "again"), model_name="me/model")
    again = (tmp_path / "again" / "README.md").read_text(encoding="utf-8")
    assert training in again  # as push_to_hub of sentence-transformers writes it
    assert 'SentenceTransformer("me/model")' in again


def test_the_model_card_of_sentences_in_memory_names_none_of_them(tmp_path: Path, curves: None) -> None:
    """A sentence may be longer than the system allows for a path."""
    sentences = [sentence * 40 for sentence in toy_sentences(16)]
    trainer = make_trainer(tmp_path, RunReport(), monitor=None, max_steps=2, val_check_interval=None)
    trainer.fit(make_module(), SentRepDataModule(sentences, val=[], batch_size=8, seed=0))
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "**Training text:** given in Python" in card
    assert sentences[0] not in card
