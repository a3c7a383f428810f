"""A resumed run equals the uninterrupted one bit for bit, with every sampler active."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from samplers import KINDS, assert_same

from sentrep import SentRepDataModule, SentRepModule, negatives
from sentrep.objectives import Contrastive
from support import tiny_encoder


def _fit(folder: Path, checkpoint: Path | None = None) -> dict[str, Any]:
    """The module's state after four steps, the samplers' extra state included; step 2 is kept as a checkpoint."""
    samplers = {kind: getattr(negatives, name)(**arguments) for kind, (name, arguments) in KINDS.items()}
    module = SentRepModule(tiny_encoder(), {"contrastive": Contrastive(negatives=samplers)}, seed=3)
    data = SentRepDataModule(train="toy", batch_size=8, seed=3, cache_dir=str(folder / "cache"))
    trainer = Trainer(
        max_steps=4,
        accelerator="cpu",
        logger=False,
        callbacks=[ModelCheckpoint(folder, "{step}", every_n_train_steps=2, save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True if checkpoint else None)
    assert trainer.global_step == 4
    return module.state_dict()


@pytest.mark.filterwarnings("ignore:MemoryBank")
def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole = _fit(tmp_path)
    resumed = _fit(tmp_path / "resumed", tmp_path / "step=2.ckpt")
    assert_same(resumed, whole)
    assert sum(name.endswith("_extra_state") for name in whole) == len(KINDS)
