"""What a module writes down of its own construction, and how a checkpoint becomes a module again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from lightning.pytorch import LightningModule

from sentrep.checkpoint.trust import recorded_arguments, refuse_foreign_classes
from sentrep.config import to_config
from sentrep.encoder.loading import sources

Module = TypeVar("Module", bound=LightningModule)

_INSTANTIATOR = "lightning.pytorch.cli.instantiate_module"


def record(module: Any) -> None:
    """Remember how to build a `SentRepModule` again, as plain data: the command line's config, or our own record."""
    module.save_hyperparameters(ignore=list(module.init_args), logger=False)
    if "_instantiator" in module.hparams:  # built by the command line, whose config Lightning has at hand
        module.save_hyperparameters(logger=False)
        return
    recorded = dict(module.init_args)
    try:
        recorded["optimizer"] = to_config(recorded["optimizer"])
    except TypeError:  # a lambda; a rebuilt module gets the default, a resumed one is given its own by the caller
        recorded.pop("optimizer")
    module.save_hyperparameters({**to_config(recorded), "_instantiator": _INSTANTIATOR}, logger=False)


def rebuild(
    cls: type[Module],
    path: str | Path,
    map_location: Any,
    strict: bool,
    trust_plugins: bool,
    overrides: dict[str, Any],
) -> Module:
    """See `SentRepModule.load_from_checkpoint`."""
    from lightning.pytorch.cli import instantiate_module  # needs jsonargparse, which training in Python does not

    checkpoint = sources.read_checkpoint(path)
    recorded = {k: v for k, v in recorded_arguments(checkpoint, path).items() if k not in overrides}
    if not trust_plugins:
        refuse_foreign_classes(cls, recorded, str(path))
    module: Module = instantiate_module(cls, {**recorded, **overrides})
    module.load_state_dict(checkpoint["state_dict"], strict=strict)
    return module.to(map_location or "cpu")
