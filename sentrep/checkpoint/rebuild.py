"""Write a module's description into a checkpoint, and build the module from it."""

from __future__ import annotations

import copy
import importlib.metadata
from pathlib import Path
from typing import Any, TypeVar

from lightning.pytorch import LightningModule

from sentrep.checkpoint.trust import refuse_foreign_classes
from sentrep.config import to_config
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.folders import small_files
from sentrep.io.checkpoint_file import FORMAT, read_checkpoint
from sentrep.version import __version__

Module = TypeVar("Module", bound=LightningModule)

_RECORDED = ("torch", "lightning", "transformers", "datasets", "tokenizers")
_INSTANTIATOR = "lightning.pytorch.cli.instantiate_module"


def record(module: Any) -> None:
    """Remember how to build a `SentRepModule` again, as plain data: the command line's config, or our own record."""
    module.save_hyperparameters(ignore=list(module.init_args), logger=False)
    if "_instantiator" in module.hparams:  # built by the command line, whose config Lightning knows
        module.save_hyperparameters(logger=False)
        return
    recorded = dict(module.init_args)
    try:
        recorded["optimizer"] = to_config(recorded["optimizer"])
    except TypeError:  # a lambda; a rebuilt module gets the default, a resumed one is given its own by the caller
        recorded.pop("optimizer")
    module.save_hyperparameters({**to_config(recorded), "_instantiator": _INSTANTIATOR}, logger=False)


def payload(encoder: SentenceEncoder, seed: int, data: str | None, lm_head: str | None = None) -> dict[str, Any]:
    """What makes a checkpoint self-contained: the small files of the encoder's folder, its training and its origin.

    Args:
        encoder: the trained one.
        seed: of the run.
        data: fingerprint of the training text.
        lm_head: where in the weights the masked-LM head lies that the objectives were trained with, if they had one.
    """
    return {
        "format": FORMAT,
        "version": __version__,
        "files": small_files(encoder.model),
        "training": encoder.training_settings,
        "seed": seed,
        "data": data,
        "lm_head": lm_head,
        "versions": {name: importlib.metadata.version(name) for name in _RECORDED},
    }


def recorded_arguments(checkpoint: dict[str, Any], path: str | Path) -> dict[str, Any]:
    """Constructor arguments recorded in a checkpoint, its encoder's origin replaced by itself."""
    recorded = checkpoint["hyper_parameters"].items()
    arguments = {name: copy.deepcopy(value) for name, value in recorded if not name.startswith("_")}
    encoder: dict[str, Any] = arguments["encoder"]
    encoder.get("init_args", encoder).update(backbone=str(path), tokenizer=None, pretrained=True)
    return arguments


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

    checkpoint = read_checkpoint(path)
    recorded = {k: v for k, v in recorded_arguments(checkpoint, path).items() if k not in overrides}
    if not trust_plugins:
        refuse_foreign_classes(cls, recorded, str(path))
    module: Module = instantiate_module(cls, {**recorded, **overrides})
    module.load_state_dict(checkpoint["state_dict"], strict=strict)
    return module.to(map_location or "cpu")
