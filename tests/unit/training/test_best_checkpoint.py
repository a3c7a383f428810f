"""Which checkpoint is kept, when the last is written, and what an exception leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback

from sentrep.cli import main
from sentrep.module import SentRepModule
from sentrep.objectives import Contrastive
from sentrep.training import BestCheckpoint
from support import quiet_trainer, tiny_encoder, toy_data

INTERRUPT = """
import os
from lightning.pytorch import Callback


class Interrupt(Callback):
    def on_train_batch_end(self, trainer, *_):
        self.pull("step", trainer.global_step)

    def on_validation_end(self, trainer, *_):
        self.pull("validation", trainer.global_step)

    def pull(self, moment, step):
        if f"{moment} {step}" == os.environ["MOMENT"]:
            raise RuntimeError("pulled the plug")
"""


def names(workplace: Path) -> set[str]:
    return {path.name.split("-")[0] for path in (workplace / "runs/run/version_0/checkpoints").iterdir()}


def test_without_a_monitor_the_last_step_is_chosen(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one of the training, which no validation follows."""
    assert main(["fit", "-c", "run.yaml", "--checkpoint.monitor=null", "--trainer.max_steps=3"]) == 0
    assert "The last step, 3, was kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("moment", "flags", "left"),
    [
        ("step 1", [], {"last.ckpt"}),
        ("step 1", ["--data.val=[]"], {"last.ckpt"}),
        ("validation 2", [], set()),
        ("validation 4", [], {"last.ckpt", "step=2"}),
    ],
)
def test_an_exception_leaves_the_last_state_that_a_run_can_resume_from(
    moment: str,
    flags: list[str],
    left: set[str],
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a score that nobody has computed, and without a validation that a resumed run would skip."""
    (workplace / "plug.py").write_text(INTERRUPT)
    monkeypatch.setenv("MOMENT", moment)
    assert main(["fit", "-c", "run.yaml", *flags, "--trainer.callbacks=plug.Interrupt"]) == 1
    assert "pulled the plug" in capsys.readouterr().err
    folder = workplace / "runs/run/version_0/checkpoints"
    assert (names(workplace) if folder.exists() else set()) == left
    steps = [torch.load(path, weights_only=True)["global_step"] for path in folder.glob("*.ckpt")]
    assert set(steps) == ({2} if "step=2" in left else {1} if left else set())


class Steps(Callback):
    """Which step ``last.ckpt`` holds when a step ends."""

    def __init__(self, folder: Path) -> None:
        self.file, self.seen = folder / "last.ckpt", list[int]()

    def on_train_batch_end(self, *_: Any) -> None:
        self.seen.append(torch.load(self.file, weights_only=True)["global_step"] if self.file.exists() else 0)


@pytest.mark.parametrize(
    ("when", "seen"),
    [({"every_n_train_steps": 2}, [0, 0, 2, 2]), ({}, [0] * 4)],
)
def test_last_is_written_between_validations(when: dict[str, Any], seen: list[int], tmp_path: Path) -> None:
    saver = BestCheckpoint(monitor="val/sts", dirpath=tmp_path, save_last=True, **when)
    steps = Steps(tmp_path)
    trainer = quiet_trainer(max_steps=4, limit_val_batches=0, callbacks=[saver, steps])
    trainer.fit(SentRepModule(tiny_encoder(), [Contrastive()], seed=0), toy_data())
    assert steps.seen == seen
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 4
