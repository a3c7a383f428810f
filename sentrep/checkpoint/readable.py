"""Whether a checkpoint can hold and read back a module, checked before the first step."""

from __future__ import annotations

import io
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch.serialization import get_unsafe_globals_in_checkpoint

from sentrep.encoder.encoder import check_writable
from sentrep.errors import InputError, first_line


def check_state(trainer: Trainer, module: Any) -> None:
    """Check before the first step that a checkpoint can hold the state of plug-ins and callbacks.

    Args:
        trainer: that will write checkpoints.
        module: `SentRepModule`.

    Raises:
        InputError: names the state and the class that a checkpoint cannot hold, or a weight of the backbone without a
            place.
    """
    if not trainer.checkpoint_callbacks:  # nothing is to be written
        return
    check_writable(module.encoder)
    states = {**module.objectives.state_dict(prefix="objectives."), **module.views.state_dict(prefix="views.")}
    callbacks: Any = trainer.callbacks  # type: ignore[attr-defined]
    states |= {f"callbacks.{callback.state_key}": callback.state_dict() for callback in callbacks}
    for name, state in states.items():
        if not isinstance(state, torch.Tensor):
            check_readable(state, name)


def check_readable(state: Any, name: str) -> None:
    """Refuse a state that ``torch.load(weights_only=True)`` would not read back.

    Args:
        state: a part of a checkpoint.
        name: of the state, for the message.

    Raises:
        InputError: names the state, and the classes in it.

    Examples:
        >>> check_readable({"rows": [1, slice(0, 3)]}, "callbacks.Mine")
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: no checkpoint could be written: callbacks.Mine has builtins.slice, which a \
checkpoint cannot hold, as it is read without running code; give numbers, texts, tensors, lists and dicts
    """
    try:
        torch.save(state, file := io.BytesIO())
        foreign = sorted(get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue())))
    except Exception as error:  # whatever pickling stumbles over: it cannot be kept
        foreign = [first_line(error)]
    if foreign:
        raise InputError(
            f"no checkpoint could be written: {name} has {', '.join(foreign)}, which a checkpoint cannot hold, as it "
            "is read without running code; give numbers, texts, tensors, lists and dicts"
        )
