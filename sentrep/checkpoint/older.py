"""Arguments that have been renamed: what older checkpoints and configurations call them, and their names of today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from sentrep.io.checkpoint_file import modules_of_head
from sentrep.training.sharding import EXTRA_STATE

Renamed = Mapping[str, str] | Callable[[dict[str, Any]], dict[str, Any]]
"""Old name to new one, or the old arguments to the new ones where more than a name has changed."""

_GONE = {"chunks", "revision", "trust_remote_code"}

_NEW = {"products": "auto"}
"""Fields that `sentrep.encoder.Compute` has got, by their defaults; what they choose is only rounded otherwise."""


def _module(arguments: dict[str, Any]) -> dict[str, Any]:
    """GradCache and compilation were the module's, and a head could be kept, which is a module of the encoder now."""
    taken = {"grad_cache_chunk": "rows_at_once", "compile": "compile"}
    compute = {new: arguments[old] for old, new in taken.items() if old in arguments}
    arguments = {name: value for name, value in arguments.items() if name not in taken}
    encoder, head = arguments.get("encoder"), arguments.get("head")
    settings = encoder.get("init_args", encoder) if isinstance(encoder, dict) else None
    if compute and isinstance(settings, dict):
        settings["compute"] = {**(settings.get("compute") or {}), **compute}
    known = head.get("init_args", head) if isinstance(head, dict) else None
    if isinstance(known, dict) and "keep" in known:
        if known["keep"] and isinstance(settings, dict):
            arguments["head"] = None
            settings["modules"] = modules_of_head(known, normalize=False) + (settings.get("modules") or [])
        del known["keep"]
    return arguments


def _encoder(arguments: dict[str, Any]) -> dict[str, Any]:
    """How passes run was said by arguments of their own. Groups of like length are no more: they changed no result."""
    found = {name: value for name, value in arguments.items() if name not in _GONE}
    if found.pop("normalize", False):
        found["modules"] = modules_of_head(None, normalize=True)
    if isinstance(found.get("compute"), dict):
        found["compute"] = {**_NEW, **found["compute"]}
    if "fast_dropout" not in arguments:
        return found
    layout = "packed" if found.pop("packed", False) else "padded" if arguments.get("chunks") == 1 else "auto"
    compute = {
        "layout": layout,
        "cheap_dropout": found.pop("fast_dropout"),
        "short_last_layer": found.pop("pooled_token_only", True),
        "compile": False,
        **_NEW,
    }
    if found.pop("subtract_template", False):
        found["prompt"] = {"template": found.get("prompt"), "subtract": True}
    return {**found, "compute": compute}


OLDER: dict[str, Renamed] = {
    "EncodedViews": {"on": "perturbs"},
    "SentRepModule": _module,
    "SentenceEncoder": _encoder,
}
"""By the name of the class whose arguments they are."""

SETTINGS = {"data.fraction": "data.reading.fraction"}
"""Of the run's settings that ``sentrep fit`` records beside the model."""

_WITHOUT_CLASS_PATH = {"encoder": "SentenceEncoder"}
"""Sections of a model that are recorded as their arguments alone, and their classes."""


def complete(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Put what older checkpoints lack into one, in place: the objectives' step is that of the run."""
    state, step = checkpoint.get("state_dict"), checkpoint.get("global_step")
    if isinstance(state, dict) and type(step) is int and 0 <= step < 2**63:
        state.setdefault(f"objectives.{EXTRA_STATE}", torch.tensor(step))
    return checkpoint


def translate(arguments: Any, kind: str = "") -> Any:
    """Recorded arguments under the names of today, at any depth; a new tree, equal where nothing has been renamed.

    Args:
        arguments: plain data, as `sentrep.config.to_config` and the command line write it.
        kind: name of the class whose arguments they are, where the data does not say.

    Examples:
        >>> translate({"views": {"class_path": "sentrep.views.EncodedViews", "init_args": {"on": "both"}}})
        {'views': {'class_path': 'sentrep.views.EncodedViews', 'init_args': {'perturbs': 'both'}}}
    """
    if isinstance(arguments, list):
        return [translate(element) for element in arguments]
    if not isinstance(arguments, dict):
        return arguments
    if "class_path" in arguments or "init_args" in arguments:
        kind = str(arguments.get("class_path", kind)).rpartition(".")[-1]
        return {
            key: translate(value, kind) if key == "init_args" else value if key == "class_path" else translate(value)
            for key, value in arguments.items()
        }
    below = {key: translate(value, _WITHOUT_CLASS_PATH.get(key, "")) for key, value in arguments.items()}
    older = OLDER.get(kind, {})
    return older(below) if callable(older) else {older.get(key, key): value for key, value in below.items()}
