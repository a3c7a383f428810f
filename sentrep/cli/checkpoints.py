"""What a checkpoint says about its own model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sentrep.cli.configuration import Tree
from sentrep.errors import InputError

NAMES = ("best", "last", "hpc", "registry")
"""Words that Lightning takes in place of a path."""


def checkpoint_model(ckpt_path: str | None) -> Tree | None:
    """The model section that built a checkpoint, ready for a configuration.

    The encoder is taken from the checkpoint itself, so that the folder it was once built from may be gone.

    Args:
        ckpt_path: a file, a word such as ``last`` that only the trainer understands, or None.

    Returns:
        The section, or None where there is no file to look into.

    Raises:
        InputError: for a file that is missing, no checkpoint, or not one of ours.
    """
    if ckpt_path is None or "://" in ckpt_path or ckpt_path.split(":")[0] in NAMES:
        return None
    if not Path(ckpt_path).is_file():
        raise InputError(f"checkpoint {ckpt_path} does not exist; give the path of a .ckpt file")
    try:
        content = torch.load(ckpt_path, weights_only=True, map_location="cpu", mmap=True)
    except Exception as error:  # unpickling fails in as many ways as there are foreign files
        raise InputError(f"{ckpt_path} is no readable checkpoint ({type(error).__name__}); is the file cut?") from None
    settings = content.get("hyper_parameters", {}) if isinstance(content, dict) else {}
    if "encoder" not in settings or "objectives" not in settings:
        raise InputError(f"{ckpt_path} was not written by sentrep: it has no settings of an encoder and objectives")
    model = {key: value for key, value in settings.items() if not key.startswith("_")}
    arguments = {**model["encoder"]["init_args"], "backbone": str(ckpt_path), "pretrained": True}
    return {**model, "encoder": {**model["encoder"], "init_args": arguments}}


def differing_keys(mine: Any, saved: Any, path: str = "model") -> list[str]:
    """Dotted keys of the values that differ between two model sections; the encoder's origin is left aside."""
    if path in ("model.encoder.backbone", "model.encoder.pretrained"):
        return []
    if not isinstance(mine, dict) or not isinstance(saved, dict):
        return [] if mine == saved else [path]
    keys = dict.fromkeys([*mine, *saved])
    here = {key: path if key == "init_args" else f"{path}.{key}" for key in keys}
    return [name for key in keys for name in differing_keys(mine.get(key), saved.get(key), here[key])]
