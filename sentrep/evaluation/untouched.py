"""The model that a training began with, as its own folder has it: what a result has to be better than."""

from __future__ import annotations

from typing import Any

import torch

from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.sources import open_source, parse_backbone
from sentrep.encoder.modules import Normalize
from sentrep.errors import InputError

_NORMALIZE = f"{Normalize.__module__}.{Normalize.__qualname__}"


def untouched(encoder: SentenceEncoder) -> tuple[SentenceEncoder, str] | None:
    """The start model with what its folder says of itself, where a run has replaced some of that.

    Args:
        encoder: of the run, before training.

    Returns:
        The start model, in evaluation mode on the same device, and what was replaced, in words. None where a cosine of
        it is one of the encoder's: the same pooling, prompt and modules, or a model that says nothing of these.
    """
    arguments: dict[str, Any] = encoder.init_args
    name, hub = parse_backbone(arguments["backbone"])
    if not isinstance(name, str) or arguments.get("pretrained") is False:
        return None
    try:
        found = open_source(arguments["backbone"], whole=True, weights=False)
        if found.settings is None:
            return None
        own, mine = _wording(found.settings), _wording(encoder.settings)
        replaced = [f"{key} ({own[key]}) by {mine[key]}" for key in own if own[key] != mine[key]]
        if not replaced:
            return None
        with torch.random.fork_rng(devices=[]):  # layers draw their initial weights before the stored ones arrive
            start = SentenceEncoder.from_pretrained(name, **hub, tokenizer=arguments.get("tokenizer"))
    except InputError:  # a folder that trains all the same
        return None
    return start.to(encoder.device), f"its own {', '.join(replaced)}"


def _wording(settings: Settings) -> dict[str, str]:
    """What the cosine of two sentences depends on beside the backbone; a length does not matter to it."""
    modules = [module["class_path"] for module in settings.modules if module["class_path"] != _NORMALIZE]
    return {
        "pooling": settings.pooling,
        "prompt": repr(settings.prompt) if settings.prompt else "none",
        "default prompt": repr(settings.default_prompt) if settings.default_prompt else "none",
        "modules": ", ".join(path.rpartition(".")[2] for path in modules) or "none",
    }
