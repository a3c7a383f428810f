"""Scores before training, of the run's encoder and of its untouched start model, as the baseline of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_info

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.settings import Settings
from sentrep.encoder.loading.sources import open_source, parse_backbone
from sentrep.encoder.modules import Normalize
from sentrep.errors import InputError
from sentrep.evaluation.before_after import UNTOUCHED
from sentrep.evaluation.scoring import pair_scores
from sentrep.evaluation.sts import display_name
from sentrep.io.text import printable

_NORMALIZE = f"{Normalize.__module__}.{Normalize.__qualname__}"


def scores_before(encoder: SentenceEncoder, data: Any) -> tuple[dict[str, float], str | None]:
    """Score an encoder before its training, as each validation does, and the start model if its settings differ.

    Args:
        encoder: of the run.
        data: its data module.

    Returns:
        The scores by metric, and the replaced settings of the start model, in words.
    """
    sets: Sequence[ScoredPairs] = getattr(data, "val_sets", [])
    scores, replaced = _similarity(encoder, sets, "the encoder before training"), None
    if sets and (start := untouched(encoder)) is not None:
        found, replaced = _similarity(start[0], sets, "the untouched model"), start[1]
        scores |= {name.replace("val/", UNTOUCHED, 1): score for name, score in found.items()}
    return scores, replaced


def _similarity(encoder: SentenceEncoder, sets: Sequence[ScoredPairs], what: str) -> dict[str, float]:
    if not sets:
        return {}
    rank_zero_info(f"Scoring {what}: {printable(', '.join(display_name(pairs.name) for pairs in sets))}")
    scores = {f"val/{name}": score for pairs in sets for name, score in pair_scores(encoder, pairs)[0].items()}
    return {**scores, "val/sts": sum(scores[f"val/{pairs.name}"] for pairs in sets) / len(sets)}


def untouched(encoder: SentenceEncoder) -> tuple[SentenceEncoder, str] | None:
    """The start model with its folder's settings, if a run has replaced some of them.

    Args:
        encoder: of the run, before training.

    Returns:
        The start model, in evaluation mode on the same device, and the names of the replaced settings. None if both
        give the same cosines: the same pooling, prompt and modules, or a folder without these settings.
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
    """The settings that change the cosine of two sentences, beside the backbone and without the lengths."""
    modules = [module["class_path"] for module in settings.modules if module["class_path"] != _NORMALIZE]
    return {
        "pooling": settings.pooling,
        "prompt": repr(settings.prompt) if settings.prompt else "none",
        "default prompt": repr(settings.default_prompt) if settings.default_prompt else "none",
        "modules": ", ".join(path.rpartition(".")[2] for path in modules) or "none",
    }
