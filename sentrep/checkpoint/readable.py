"""Whether a checkpoint can hold and read back a module, checked before the first step."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch import nn

from sentrep.encoder.encoder import check_writable
from sentrep.errors import InputError

_READABLE = (torch.Tensor, nn.Parameter, int, float, bool, str, type(None))


def check_state(trainer: Trainer, module: Any) -> None:
    """Check before the first step that a checkpoint can hold the state of plug-ins and callbacks.

    Args:
        trainer: that will write checkpoints.
        module: `SentRepModule`.

    Raises:
        InputError: names the class and the key that a checkpoint cannot hold, or a weight of the backbone without a
            place.
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
    check_writable(module.encoder)
    plugins = {"objectives": module.objectives.state_dict(), "views": module.views.state_dict()}
    callbacks = {callback.state_key: callback.state_dict() for callback in trainer.callbacks}  # type: ignore[attr-defined]
    check_readable({**plugins, "callbacks": callbacks})


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
