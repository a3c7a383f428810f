"""A resumed run equals the uninterrupted one bit for bit, with every sampler and every other plug-in active."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from samplers import KINDS, assert_same

from sentrep import SentRepDataModule, SentRepModule, negatives
from sentrep.objectives import Alignment, Contrastive, Distillation, MaskedLanguageModeling
from sentrep.stability import SAM
from sentrep.views import FGSM, EncodedViews, GaussianNoise, TokenShuffling
from sentrep.weighting import ComplementaryWeighting
from support import tiny_encoder


def _fit(folder: Path, module: SentRepModule, checkpoint: Path | None = None) -> dict[str, Any]:
    """The module's state after four steps, the samplers' extra state included; step 2 is kept as a checkpoint."""
    data = SentRepDataModule(train="toy", batch_size=8, seed=3)
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


def _all_samplers() -> SentRepModule:
    samplers = {kind: getattr(negatives, name)(**arguments) for kind, (name, arguments) in KINDS.items()}
    return SentRepModule(tiny_encoder(), {"contrastive": Contrastive(negatives=samplers)}, seed=3)


def _all_other_plugins(teacher: str) -> SentRepModule:
    """Weighting, distillation, augmentations and a wrapped optimiser at once, on refined noise and a bank."""
    contrastive = Contrastive(
        negatives={"noise": negatives.RefinedNoiseNegatives(), "bank": negatives.MemoryBank(16)},
        weighting=ComplementaryWeighting(teacher, threshold=0.5),
    )
    return SentRepModule(
        tiny_encoder(),
        {
            "contrastive": contrastive,
            "distillation": Distillation(teacher),
            "alignment": Alignment(),
            "mlm": MaskedLanguageModeling(whole_word=True),
        },
        views=EncodedViews([GaussianNoise(0.01), TokenShuffling(), FGSM()], perturbs="both"),
        optimizer=functools.partial(SAM, base_optimizer=functools.partial(torch.optim.AdamW, lr=1e-3)),
        seed=3,
    )


@pytest.mark.filterwarnings("ignore:MemoryBank")
def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole = _fit(tmp_path, _all_samplers())
    resumed = _fit(tmp_path / "resumed", _all_samplers(), tmp_path / "step=2.ckpt")
    assert_same(resumed, whole)
    assert sum(name.endswith("_extra_state") for name in whole) == len(KINDS) + 1, "the objectives' step too"


def test_resumed_equals_uninterrupted_with_the_other_plugins(tmp_path: Path, teacher: str) -> None:
    whole = _fit(tmp_path, _all_other_plugins(teacher))
    resumed = _fit(tmp_path / "resumed", _all_other_plugins(teacher), tmp_path / "step=2.ckpt")
    assert_same(resumed, whole)
