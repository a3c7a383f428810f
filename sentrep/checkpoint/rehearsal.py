"""Write and read a checkpoint in memory before the first step, to report unreadable content early."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import torch
from lightning.fabric.plugins.io import CheckpointIO
from lightning.pytorch import LightningModule, Trainer
from torch import nn

from sentrep.encoder.loading.weights import check_rebuilds
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY

_READABLE = (torch.Tensor, nn.Parameter, int, float, bool, str, type(None))


class Rehearsal(CheckpointIO):
    """Checks a checkpoint instead of writing it.

    Attributes:
        problem: why it could not be read back; None if it could.
    """

    problem: str | None = None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Look at the content."""
        try:
            check_readable(checkpoint)
            check_rebuilds(checkpoint[PAYLOAD_KEY], checkpoint["state_dict"])
        except InputError as error:
            self.problem = str(error)

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """There is nothing to load."""
        raise NotImplementedError

    def remove_checkpoint(self, path: Any) -> None:
        """There is nothing to remove."""


def rehearse(trainer: Trainer, module: LightningModule) -> None:
    """Build the checkpoint that the trainer would write now, and check that it could be read back.

    All processes must call this together.

    Raises:
        InputError: names the class and the key that a checkpoint cannot hold, or the weight that has no place in a
            model built again from it.
    """
    if not trainer.checkpoint_callbacks:  # nothing is to be written
        return
    for name, part in module.named_modules():
        kind = type(part)
        if (kind.get_extra_state is nn.Module.get_extra_state) != (kind.set_extra_state is nn.Module.set_extra_state):
            raise InputError(
                f"{kind.__name__} ({name}) has only one of get_extra_state and set_extra_state, so its checkpoint "
                "could not be resumed; write both"
            )
    strategy, io = trainer.strategy, trainer.strategy.checkpoint_io
    strategy.checkpoint_io = rehearsal = Rehearsal()
    try:
        trainer.save_checkpoint("rehearsal.ckpt", weights_only=False)
    finally:
        strategy.checkpoint_io = io
    if problem := strategy.broadcast(rehearsal.problem):  # only the process that writes has looked
        raise InputError(problem)


def check_readable(value: Any, path: tuple[Any, ...] = ()) -> None:
    """Refuse content that ``torch.load(weights_only=True)`` would not read back.

    Args:
        value: the content of a checkpoint, or a part of it.
        path: keys that lead to the part.

    Raises:
        InputError: names the keys that lead to the first such value, and its class.

    Examples:
        >>> check_readable({"callbacks": {"Mine": [1, {"rows": slice(0, 3)}]}})
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: no checkpoint could be written: callbacks.Mine.1.rows is a slice, which a \
checkpoint cannot hold, as it is read without running code; give numbers, texts, tensors, lists and dicts
    """
    if type(value) in (dict, OrderedDict):
        for key, part in value.items():
            check_readable(key, (*path, "a key"))
            check_readable(part, (*path, key))
    elif type(value) in (list, tuple):
        for place, part in enumerate(value):
            check_readable(part, (*path, place))
    elif type(value) not in _READABLE:
        try:
            torch.save(value, file := io.BytesIO())
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        except Exception:  # whatever pickling stumbles over: it cannot be kept
            raise InputError(
                f"no checkpoint could be written: {'.'.join(map(str, path))} is a {type(value).__qualname__}, which "
                "a checkpoint cannot hold, as it is read without running code; give numbers, texts, tensors, lists "
                "and dicts"
            ) from None
