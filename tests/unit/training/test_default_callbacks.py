"""A Trainer in Python with `default_callbacks` keeps, refuses and resumes as `sentrep fit` does."""

from __future__ import annotations

import json
import os
import signal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import CSVLogger

from sentrep import Objective, SentRepDataModule, SentRepModule
from sentrep.errors import InputError
from sentrep.objectives import Alignment, Contrastive
from sentrep.training import ExactResume, default_callbacks
from support import forked, tiny_encoder

OPTIONS: dict[str, Any] = {
    "accelerator": "cpu", "max_steps": 6, "val_check_interval": 2, "check_val_every_n_epoch": None,
    "use_distributed_sampler": False, "enable_progress_bar": False, "enable_model_summary": False,
    "log_every_n_steps": 1, "num_sanity_val_steps": 0,
}  # fmt: skip
LAST = Path("run/version_0/checkpoints/last.ckpt")


class Kill(Callback):
    """Kills the process when a step ends."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def module(objective: Objective | None = None, **encoder: Any) -> SentRepModule:
    objectives = {"contrastive": objective or Contrastive()}
    return SentRepModule(tiny_encoder(**encoder), objectives, scheduler="constant", seed=7)


def data(batch_size: int = 4) -> SentRepDataModule:
    words = ["a dog", "two cats", "the rain", "one red car", "it"]
    pairs = [f"{first},{second},{number}" for number, (first, second) in enumerate(permutations(words, 2))]
    Path("dev.csv").write_text("\n".join(["sentence1,sentence2,score", *pairs]))
    return SentRepDataModule("toy", val=["dev.csv"], batch_size=batch_size, seed=3)


def train(name: str, *more: Callback, resume: bool = False, how: dict[str, Any] | None = None) -> int:
    """Train into a folder of this name; the status is for `forked`."""
    logger = CSVLogger(".", name=name, version=0)
    trainer = Trainer(callbacks=[*default_callbacks(), *more], logger=logger, **{**OPTIONS, **(how or {})})
    trainer.fit(module(), data(), ckpt_path=name + "/version_0/checkpoints/last.ckpt" if resume else None)
    return 0


def interrupted(step: int, how: dict[str, Any]) -> int:
    return train("run", Kill(step), how=how)


def left(name: str) -> dict[str, Any]:
    """What a run leaves: weights, the optimiser's state, the names of its checkpoints, its choice and its metrics."""
    folder = Path(name, "version_0")
    checkpoint = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)
    (optimizer,) = checkpoint["optimizer_states"]
    tensors = [*checkpoint["state_dict"].values(), *(x for s in optimizer["state"].values() for x in s.values())]
    return {
        "tensors": [tensor.numpy().tobytes() for tensor in tensors],
        "checkpoints": sorted(path.name for path in (folder / "checkpoints").iterdir()),
        "step": json.loads((folder / "selection.json").read_text())["step"],
        "metrics": (folder / "metrics.csv").read_text(),
    }


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "how"),
    [(3, {}), (5, {"precision": "bf16-mixed"}), (4, {"accumulate_grad_batches": 2, "val_check_interval": 4})],
    ids=["between validations", "bf16", "accumulated"],
)
def test_a_killed_run_ends_as_one_left_alone(kill: int, how: dict[str, Any]) -> None:
    train("whole", how=how)
    process = forked(interrupted, kill, how)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    train("run", resume=True, how=how)
    assert left("run") == left("whole")


def test_a_run_is_resumed_by_its_own_settings_alone() -> None:
    train("run", how={"max_steps": 2})
    assert left("run")["step"] == 2  # with a choice, checkpoints and metrics
    other: list[tuple[SentRepModule, SentRepDataModule, str]] = [
        (module(Contrastive(temperature=0.1)), data(), r"objectives\.contrastive\.temperature"),
        (module(Alignment()), data(), r"model\.objectives\.contrastive"),
        (module(dropout=0.3), data(), r"model\.encoder\.dropout"),
        (module(), data(batch_size=2), r"data\.batch_size"),
    ]
    for changed, text, says in other:
        trainer = Trainer(callbacks=default_callbacks(), logger=False, **OPTIONS)
        with pytest.raises(InputError, match=rf"{says}.*ExactResume\(allow_changes=True\)"):
            trainer.fit(changed, text, ckpt_path=LAST)
    allowed = [ExactResume(allow_changes=True)]
    trainer = Trainer(callbacks=allowed, logger=False, enable_checkpointing=False, **OPTIONS)
    trainer.fit(module(Contrastive(temperature=0.1)), data(batch_size=2), ckpt_path=LAST)
    assert trainer.global_step == OPTIONS["max_steps"]
