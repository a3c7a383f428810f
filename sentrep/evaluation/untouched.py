"""Scores before training, of the run's encoder and of its untouched start model, as the baseline of a result."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from lightning.pytorch.utilities import rank_zero_info

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.model import parse_backbone
from sentrep.encoder.modules import Normalize
from sentrep.errors import InputError
from sentrep.evaluation.before_after import UNTOUCHED
from sentrep.evaluation.scoring import pair_scores
from sentrep.evaluation.sts import display_name
from sentrep.io.text import printable


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
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            start = SentenceEncoder.from_pretrained(name, **hub, tokenizer=arguments.get("tokenizer"))
    except InputError:  # a folder that trains all the same
        return None
    own, mine = _wording(start), _wording(encoder)
    replaced = [f"{key} ({own[key]}) by {mine[key]}" for key in own if own[key] != mine[key]]
    if not replaced or any("carries no pooling" in str(warning.message) for warning in said):
        return None
    return start.to(encoder.device), f"its own {', '.join(replaced)}"


def _wording(encoder: Any) -> dict[str, str]:
    """The settings that change the cosine of two sentences, beside the backbone and without the lengths."""
    modules = [type(module).__name__ for module in encoder.sentence_modules if type(module) is not Normalize]
    default = encoder.prompts.get(encoder.default_prompt_name)
    return {
        "pooling": encoder.pooling,
        "prompt": repr(encoder.prompt) if encoder.prompt else "none",
        "default prompt": repr(default) if default else "none",
        "modules": ", ".join(modules) or "none",
    }
