"""A resumed run ends where the uninterrupted one does."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject
from sentrep.module import SentRepModule

BOUND_ON_GPU = 1e-4
"""Absolute, in the weights: a GPU adds up in another order each time. On a CPU the bound is 0."""
_HALF = 3
_REMEDY = "a plug-in keeps state outside of its state_dict (register_buffer, get_extra_state), or draws unseeded"


def check(subject: Subject) -> Outcome:
    """A few steps in one go, against the second half of them from the checkpoint in the middle."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = _train(subject, folder, None)
        resumed = _train(subject, folder, str(folder / f"step={_HALF}.ckpt"))
    apart = max(float((resumed[name] - weights).abs().max()) for name, weights in whole.items())
    bound = 0.0 if subject.device == "cpu" else BOUND_ON_GPU
    return Outcome.of_difference("resumed = uninterrupted", apart, bound, _REMEDY)


def _train(subject: Subject, folder: Path, checkpoint: str | None) -> dict[str, Tensor]:
    """Weights at the end."""
    module: SentRepModule = subject.module()
    saving = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=_HALF, save_top_k=-1)
    trainer = subject.trainer_for(folder, [saving], max_steps=2 * _HALF)
    trainer.fit(
        module, datamodule=subject.datamodule(folder), ckpt_path=checkpoint, weights_only=True if checkpoint else None
    )
    state = module.state_dict()
    return {
        name: value.detach().cpu()
        for name, value in state.items()
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel()
    }
