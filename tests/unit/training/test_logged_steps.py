"""The loss in a log is the mean since the last log step, and all logs count the same steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sentrep import SentRepDataModule, SentRepModule
from sentrep.objectives import Contrastive
from sentrep.training import RunReport
from sentrep.training.mean_loss import MeanLoss
from support import Losses, quiet_trainer, tiny_encoder


class Recorder(Logger):
    """What a logger of Lightning is given, such as `WandbLogger`: its numbers by name and step."""

    name, version = "recorder", 0

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[int, float]] = {}

    def log_hyperparams(self, *_: Any, **__: Any) -> None: ...

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        assert step is not None
        for name, value in metrics.items():
            self.found.setdefault(name, {})[step] = value


def train(
    folder: Path, steps: int, accumulate: int = 1, scheduler: Any = "linear", resume: Path | None = None
) -> tuple[RunReport, Losses, Recorder]:
    losses, recorder, report = Losses(), Recorder(), RunReport()
    trainer = quiet_trainer(
        max_steps=steps,
        log_every_n_steps=4,
        val_check_interval=4 * accumulate,
        check_val_every_n_epoch=None,
        accumulate_grad_batches=accumulate,
        callbacks=[losses, report],
        logger=[TensorBoardLogger(folder, "", "board"), CSVLogger(folder, "", "csv"), recorder],
    )
    module = SentRepModule(tiny_encoder(), [Contrastive()], scheduler=scheduler, seed=0)
    trainer.fit(module, SentRepDataModule("toy", val=["toy-dev"], batch_size=16), ckpt_path=resume, weights_only=True)
    trainer.save_checkpoint(folder / f"{steps}.ckpt")
    return report, losses, recorder


def test_every_log_has_the_mean_loss_and_the_rate_at_the_same_steps(tmp_path: Path) -> None:
    report, losses, recorder = train(tmp_path, 8)
    means = {step: pytest.approx(sum(losses.found[step - 4 : step]) / 4) for step in (4, 8)}
    board = EventAccumulator(str(tmp_path / "board")).Reload()
    csv = pd.read_csv(tmp_path / "csv/metrics.csv", index_col="step")
    for name, steps in {"train/loss": [4, 8], "train/lr": [4, 8], "train/alignment": [4, 8], "val/sts": [4, 8]}.items():
        logs = {
            "report": report.history[name].dropna().drop(0, errors="ignore").to_dict(),
            "csv": csv[name].dropna().to_dict(),
            "board": {event.step: event.value for event in board.Scalars(name)},
            "recorder": recorder.found[name],
        }
        assert {log: list(values) for log, values in logs.items()} == dict.fromkeys(logs, steps)
        assert all(values == pytest.approx(recorder.found[name]) for values in logs.values())
    assert recorder.found["train/loss"] == means
    rates = [3e-5 * (1 - finished / 8) for finished in (3, 7)]
    assert [*recorder.found["train/lr"].values()] == pytest.approx(rates)
    assert recorder.found["epoch"] == {4: 0, 8: 0}
    assert not {"step", "epoch"} & {*report.history}


def test_batches_of_one_step_count_alike(tmp_path: Path) -> None:
    report, losses, recorder = train(tmp_path, 8, accumulate=2)
    halves = losses.found[8:16]  # Lightning has divided them by the number of batches in a step
    assert recorder.found["train/loss"][8] == pytest.approx(sum(halves) / 4, rel=1e-5)
    assert report.history["train/loss"].dropna().to_dict() == pytest.approx(recorder.found["train/loss"])


@pytest.mark.slow
def test_a_resumed_run_logs_the_same_mean(tmp_path: Path) -> None:
    _, _, whole = train(tmp_path / "whole", 8, scheduler="constant")
    train(tmp_path / "parts", 6, scheduler="constant")
    _, _, resumed = train(tmp_path / "parts", 8, scheduler="constant", resume=tmp_path / "parts/6.ckpt")
    assert {name: values[8] for name, values in resumed.found.items()} == {
        name: values[8] for name, values in whole.found.items()
    }


@pytest.mark.parametrize("step", [5, 6])
def test_a_checkpoint_within_a_step_counts_no_batch_twice(step: int) -> None:
    mean = MeanLoss()
    for number in (4, 5, 5):
        mean.add(torch.tensor(float(number)), number, every=4)
    resumed = MeanLoss()
    resumed.load(mean.state(step), step)
    assert float(resumed.add(torch.tensor(10.0), step, every=4)) == {5: 7.0, 6: 6.0}[step]


def test_a_non_finite_loss_shows_and_is_then_left_out() -> None:
    mean = MeanLoss()
    assert mean.add(torch.tensor(float("nan")), 0, every=4).isnan()
    assert mean.add(torch.tensor(2.0), 1, every=4) == 2.0
    assert mean.add(torch.tensor(float("inf")), 2, every=4).isinf()
    assert mean.add(torch.tensor(4.0), 3, every=4) == 3.0
