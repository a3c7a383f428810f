"""Which checkpoint is kept, when the last is written, and what an exception leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback

from sentrep.cli import main
from sentrep.data import SentRepDataModule
from sentrep.module import SentRepModule
from sentrep.objectives import Contrastive
from sentrep.training import BestCheckpoint
from support import quiet_trainer, tiny_encoder

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
    out = capsys.readouterr().out
    assert "The last step, 3, was kept" in out
    assert "Step 3 has no scores: the last validation was at step 2" in out


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
    """Which step ``last.ckpt`` holds when a step ends; by its own score, the first validation is the best."""

    def __init__(self, folder: Path) -> None:
        self.file, self.seen = folder / "last.ckpt", list[int]()

    def on_validation_epoch_end(self, trainer: Any, module: Any) -> None:
        module.log("val/steps", float(trainer.global_step))

    def on_train_batch_end(self, *_: Any) -> None:
        self.seen.append(torch.load(self.file, weights_only=True)["global_step"] if self.file.exists() else 0)


@pytest.mark.parametrize(
    ("saver", "validations", "seen"),
    [
        ({"monitor": "val/sts", "every_n_train_steps": 2}, 0, [0, 0, 2, 2, 4, 4]),
        ({"monitor": "val/sts"}, 0, [0] * 6),
        ({"monitor": "val/steps", "mode": "min"}, 1, [0, 0, 2, 2, 4, 4]),
    ],
    ids=["by the step", "at the end alone", "at every validation and not only the best"],
)
def test_last_is_written(saver: dict[str, Any], validations: int, seen: list[int], tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    callbacks = [BestCheckpoint(dirpath=tmp_path, save_last=True, **saver), steps]
    when = {"val_check_interval": 2, "check_val_every_n_epoch": None, "limit_val_batches": validations}
    trainer = quiet_trainer(max_steps=6, callbacks=callbacks, **when)
    data = SentRepDataModule("toy", val=["toy-dev"], batch_size=4)
    trainer.fit(SentRepModule(tiny_encoder(), [Contrastive()], seed=0), data)
    assert steps.seen == seen
    kept = {path.name.split("-")[0]: torch.load(path, weights_only=True)["global_step"] for path in tmp_path.iterdir()}
    assert kept == {"last.ckpt": 6, **({"step=2": 2} if validations else {})}
