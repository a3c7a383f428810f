"""The gradient of k accumulated micro-batches is the mean of theirs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from sentrep import distributed
from sentrep.doctor.gradients import gradients_of, relative_difference
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject
from sentrep.types import TextBatch

BOUND = 1e-4
"""Of the largest gradient, in float32."""
_STEPS = 2
_REMEDY = "train with trainer.accumulate_grad_batches 1, and look for an objective or callback that keeps state"


class _Recorder(Callback):
    """Notes the micro-batches and the gradient of the first optimiser step."""

    def __init__(self) -> None:
        self.batches: list[TextBatch] = []
        self.gradients: dict[str, Tensor] = {}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batches.append(batch)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        if not self.gradients:  # the first call of the closure: SAM calls it again at other weights
            self.gradients = {name: gradient.clone() for name, gradient in gradients_of(pl_module).items()}


def check(subject: Subject) -> Outcome:
    """One optimiser step of Lightning's Trainer, dropout included, against the micro-batches one by one."""
    recorder = _Recorder()
    with tempfile.TemporaryDirectory() as folder:
        trainer = subject.trainer_for(Path(folder), [recorder], max_steps=1, accumulate_grad_batches=_STEPS)
        trainer.fit(subject.module(), datamodule=subject.datamodule(Path(folder)))
    module = subject.module().to(subject.device)
    for number, batch in enumerate(recorder.batches[:_STEPS]):
        distributed.seed_step(module.seed, 0, number)
        loss, _ = module.objectives(module.views(module.encoder, batch, module.objectives.extra_inputs(batch)), batch)
        (loss / _STEPS).backward()
    found = {name: gradient.to(module.device) for name, gradient in recorder.gradients.items()}
    return Outcome.of_difference(
        "accumulation = mean of micro-batches", relative_difference(found, gradients_of(module)), BOUND, _REMEDY
    )
