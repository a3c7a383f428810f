"""What a checkpoint says about its own model, as a layer of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentrep.cli.configuration import Tree
from sentrep.encoder import sources
from sentrep.trust import recorded_arguments

NAMES = ("best", "last", "hpc", "registry")
"""Words that Lightning takes in place of a path (``registry:name`` included)."""

_ORIGIN = {
    "model.encoder.backbone",
    "model.encoder.tokenizer",
    "model.encoder.pretrained",
    "model.encoder.trust_remote_code",
}
"""Where an encoder was built from; a checkpoint stands in for that itself."""


def checkpoint_model(ckpt_path: str | None) -> Tree | None:
    """The model section that rebuilds a checkpoint's model, even where the folder it once came from is gone.

    Args:
        ckpt_path: a file, an address or a word such as ``last`` that only the trainer understands, or None.

    Returns:
        The section, or None where there is no file to look into.

    Raises:
        InputError: for a file that is missing, damaged, or not one of ours.
    """
    if ckpt_path is None or "://" in ckpt_path or ckpt_path.split(":")[0] in NAMES:
        return None
    path = Path(ckpt_path).expanduser()
    return recorded_arguments(sources.read_checkpoint(path), path)


def differing_keys(mine: Any, saved: Any, path: str = "model") -> list[str]:
    """Dotted keys of the values that differ between two model sections; the encoder's origin is left aside.

    Example:
        >>> differing_keys({"warmup_steps": 1, "seed": 2}, {"warmup_steps": 1, "seed": 3})
        ['model.seed']
    """
    if path in _ORIGIN:
        return []
    if path.endswith(".class_path"):  # one class may be imported from several places
        return [] if str(mine).rsplit(".")[-1] == str(saved).rsplit(".")[-1] else [path]
    if not isinstance(mine, dict) or not isinstance(saved, dict):
        return [] if mine == saved else [path]
    below = {key: path if key == "init_args" else f"{path}.{key}" for key in [*mine, *saved]}
    return [name for key, here in below.items() for name in differing_keys(mine.get(key), saved.get(key), here)]
