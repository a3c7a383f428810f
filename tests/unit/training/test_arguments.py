"""Settings of a Trainer that the module refuses, because Lightning trains wrongly with them."""

from __future__ import annotations

from typing import Any

import lightning
import pytest

from sentrep import InputError, SentRepDataModule, SentRepModule
from sentrep.objectives import Contrastive
from support import tiny_encoder


@pytest.mark.parametrize(
    "setting",
    [
        {"gradient_clip_val": -1.0},
        {"gradient_clip_val": 0},
        {"gradient_clip_val": float("nan")},
        {"accumulate_grad_batches": 0},
        {"accumulate_grad_batches": -2},
        {"max_steps": 0},
        {"max_epochs": 0},
        {"limit_train_batches": 0},
        {"limit_train_batches": 0.0},
    ],
    ids=str,
)
def test_a_number_that_lightning_takes_and_trains_wrongly_with_is_refused(setting: dict[str, Any]) -> None:
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(accelerator="cpu", **quiet, **{"max_epochs": 1, **setting})  # type: ignore[arg-type]
    module = SentRepModule(tiny_encoder(), [Contrastive()])
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.raises(InputError, match=rf"^trainer\.{next(iter(setting))} "):
        trainer.fit(module, SentRepDataModule(["A dog barks.", "It rains today."], batch_size=2))
    assert all(bool((old == new).all()) for old, new in zip(before, module.parameters(), strict=True))
