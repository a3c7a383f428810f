"""Settings of a Trainer that Lightning takes, and with which it trains wrongly."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy

from sentrep.errors import InputError

_AT_LEAST_ONE = ("max_steps", "max_epochs", "limit_train_batches")


def check_trainer(trainer: Any) -> None:
    """Refuse settings with which Lightning trains uphill, towards NaN, or not at all, or writes no whole checkpoint.

    Raises:
        InputError: names the setting and its possible values.
    """
    if isinstance(trainer.strategy, (FSDPStrategy, ModelParallelStrategy)):
        raise InputError(
            f"trainer.strategy {type(trainer.strategy).__name__} divides the weights among the processes, and a "
            "checkpoint is one file with all weights; use ddp and, where memory is short, GradCache "
            "(model.encoder.compute.rows_at_once) or LoRA (model.encoder.trainable)"
        )
    clip, accumulate = trainer.gradient_clip_val, trainer.accumulate_grad_batches
    if clip is not None and not clip > 0:
        raise InputError(f"trainer.gradient_clip_val {clip}: give a number above 0, or null for no clipping")
    if accumulate < 1:
        raise InputError(f"trainer.accumulate_grad_batches {accumulate}: give a number of batches, 1 or more")
    for name in _AT_LEAST_ONE:
        if getattr(trainer, name) == 0:
            raise InputError(f"trainer.{name} 0: nothing would be trained; give a number above 0, or leave it out")
