"""A checkpoint written and read back in memory before the first step: what could not be read at the end is said now."""

from __future__ import annotations

from typing import Any

from lightning.fabric.plugins.io import CheckpointIO
from lightning.pytorch import LightningModule, Trainer
from torch import nn

from sentrep.checkpoint.io import unreadable
from sentrep.encoder.loading.weights import check_rebuilds
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import PAYLOAD_KEY

_EXTRA_STATE = "_extra_state"
"""Last part of the key under which a state dict holds what `nn.Module.get_extra_state` gives."""


class Rehearsal(CheckpointIO):
    """Takes a checkpoint instead of writing it."""

    content: dict[str, Any] | None = None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Keep the content."""
        self.content = checkpoint

    def load_checkpoint(self, path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """There is nothing to load."""
        raise NotImplementedError

    def remove_checkpoint(self, path: Any) -> None:
        """There is nothing to remove."""


def rehearse(trainer: Trainer, module: LightningModule) -> None:
    """Make the checkpoint that the trainer would write now, and see that all of it could be read back.

    All processes must call this together.

    Raises:
        InputError: names the class and the key that a checkpoint cannot hold, or the weight that has no place in a
            model built again from it.
    """
    if not trainer.checkpoint_callbacks:  # nothing is to be written
        return
    problem = _state_without_way_back(module)
    strategy, io = trainer.strategy, trainer.strategy.checkpoint_io
    strategy.checkpoint_io = rehearsal = Rehearsal()
    try:
        trainer.save_checkpoint("rehearsal.ckpt", weights_only=False)
    finally:
        strategy.checkpoint_io = io
    if problem is None and rehearsal.content is not None:  # on the process that writes
        problem = _problem(trainer, module, rehearsal.content)
    if problem := strategy.broadcast(problem):
        raise InputError(problem)


def _problem(trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> str | None:
    if found := unreadable(checkpoint):
        (section, *path), value = found
        owner, key = _owner(trainer, module, section, path)
        return (
            f"{owner}: {key} is {str(value)[:80]!r}, a {type(value).__module__}.{type(value).__qualname__}, which a "
            "checkpoint cannot hold, as it is read without running code; give numbers, texts, tensors, lists and dicts"
        )
    try:
        check_rebuilds(checkpoint[PAYLOAD_KEY], checkpoint["state_dict"])
    except InputError as error:
        return str(error)
    return None


def _owner(trainer: Trainer, module: LightningModule, section: str, path: list[Any]) -> tuple[str, str]:
    """Whose state it is that lies there in a checkpoint, and the key in it."""
    place = ".".join(map(str, path[1:])) or "it"
    if section == "callbacks":
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if callback.state_key == path[0]:
                return f"callback {type(callback).__name__}", f"{place} of its state_dict"
    if section == "state_dict" and str(path[0]).endswith(_EXTRA_STATE):
        name = str(path[0]).removesuffix(_EXTRA_STATE).rstrip(".")
        return f"{type(module.get_submodule(name)).__name__} ({name})", f"{place} of its get_extra_state"
    return f"the checkpoint's {section}", ".".join(map(str, path)) or "it"


def _state_without_way_back(module: LightningModule) -> str | None:
    for name, part in module.named_modules():
        kind = type(part)
        if (kind.get_extra_state is nn.Module.get_extra_state) != (kind.set_extra_state is nn.Module.set_extra_state):
            return (
                f"{kind.__name__} ({name}) has only one of get_extra_state and set_extra_state, so its checkpoint "
                "could not be resumed; write both"
            )
    return None
