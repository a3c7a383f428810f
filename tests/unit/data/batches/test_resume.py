"""Interrupted and resumed equals uninterrupted, in the order of rows, with a real Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from words import Words

from sentrep.data import SentRepDataModule
from sentrep.errors import InputError
from sentrep.types import TextBatch
from support import quiet_trainer

pytestmark = pytest.mark.filterwarnings("ignore")  # lightning comments on the folders, the callbacks, the tiny model


class StopError(Exception):
    """The run is interrupted."""


class Recorder(LightningModule):
    """Notes the rows of every batch."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.encoder: Any = Words()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[list[int]] = []
        self.fail_at = fail_at

    def training_step(self, batch: TextBatch, batch_idx: int) -> torch.Tensor:
        if self.global_step == self.fail_at:
            raise StopError
        self.seen.append(batch.rows.tolist())
        return (self.weight * batch.rows.float().mean()).sum()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/sts", float(self.global_step), batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


TEXTS = [f"sentence {number}" for number in range(45)]


def run(
    folder: Path,
    module: Recorder,
    callbacks: list[Callback],
    *,
    ckpt: str | None = None,
    data: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> list[list[int]]:
    (folder / "corpus.txt").write_text("\n".join(TEXTS))
    settings = {"train": str(folder / "corpus.txt"), "val": ["toy-dev"], "batch_size": 4, "seed": 3, **data}
    datamodule = SentRepDataModule(**settings)
    options = {"max_epochs": 3, "enable_checkpointing": True, "use_distributed_sampler": True, **options}
    trainer = quiet_trainer(default_root_dir=folder, callbacks=callbacks, num_sanity_val_steps=0, **options)
    trainer.fit(module, datamodule=datamodule, ckpt_path=ckpt, weights_only=True if ckpt else None)
    return module.seen


def interrupted(folder: Path, stop: int, checkpoint: ModelCheckpoint, **options: Any) -> tuple[list[list[int]], str]:
    module = Recorder(fail_at=stop)
    with pytest.raises(StopError):
        run(folder, module, [checkpoint], **options)
    path = sorted(folder.glob("ckpt/*.ckpt"), key=lambda file: int(file.stem.split("=")[-1]))[-1]
    return module.seen, str(path)


AFTER_VALIDATION = {"every_n_epochs": 1, "save_on_train_epoch_end": False}
CASES = {
    "in the epoch": (7, {"every_n_train_steps": 5}, {}),
    "in a later epoch": (17, {"every_n_train_steps": 8}, {}),
    "on the last batch of an epoch": (13, {"every_n_train_steps": 11}, {}),
    "at the end of an epoch": (14, {"every_n_epochs": 1, "save_on_train_epoch_end": True}, {}),
    "after validation at the end of an epoch": (14, AFTER_VALIDATION, {}),
    "after validation in an epoch": (14, AFTER_VALIDATION, {"val_check_interval": 4}),
    "after validation across epochs": (
        20,
        AFTER_VALIDATION,
        {"val_check_interval": 6, "check_val_every_n_epoch": None},
    ),
    "with shortened epochs": (9, {"every_n_train_steps": 7}, {"limit_train_batches": 5}),
    "with shortened epochs, at an end": (7, {"every_n_train_steps": 5}, {"limit_train_batches": 5}),
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_rows_equal_uninterrupted(tmp_path: Path, case: str) -> None:
    check_resume(tmp_path, case)


@pytest.mark.parametrize("data", [{"no_duplicates": True}, {"train": TEXTS}], ids=["distinct", "in memory"])
def test_resumed_rows_without_duplicates_or_in_memory(tmp_path: Path, data: dict[str, Any]) -> None:
    """`test_loaders.py` has batches that workers have prepared ahead."""
    check_resume(tmp_path, "in a later epoch", data=data)


def test_streaming_needs_a_number_of_steps(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"how long the text is: set --trainer.max_steps"):
        run(tmp_path, Recorder(), [], data={"streaming": True})


def check_resume(tmp_path: Path, case: str, **how: Any) -> None:
    stop, saving, options = CASES[case]
    options = {**options, **how}
    whole = run(tmp_path, Recorder(), [], **options)
    checkpoint = ModelCheckpoint(tmp_path / "ckpt", filename="{step}", save_top_k=-1, **saving)
    seen, path = interrupted(tmp_path, stop, checkpoint, **options)
    step = int(Path(path).stem.split("=")[-1])
    assert 0 < step <= stop == len(seen)
    assert seen == whole[:stop]
    assert run(tmp_path, Recorder(), [], ckpt=path, **options) == whole[step:]


def test_a_batch_whose_step_failed_is_seen_again(tmp_path: Path) -> None:
    whole = run(tmp_path, Recorder(), [])
    checkpoint = ModelCheckpoint(tmp_path / "ckpt", filename="{step}", save_on_exception=True)
    with pytest.raises(StopError):
        run(tmp_path, Recorder(fail_at=7), [checkpoint])
    (path,) = (tmp_path / "ckpt").glob("*.ckpt")
    assert run(tmp_path, Recorder(), [], ckpt=str(path)) == whole[7:]


def test_overfit_batches_repeat_the_same_rows(tmp_path: Path) -> None:
    seen = run(tmp_path, Recorder(), [], overfit_batches=2, max_epochs=3)
    assert seen[:2] == seen[2:4] == seen[4:]
