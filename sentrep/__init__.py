"""Sentence embeddings without labels: pluggable contrastive and generative objectives on one encoder pass.

The names below are imported on first use, so that ``import sentrep`` (and ``sentrep --help``) cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sentrep.version import __version__

if TYPE_CHECKING:
    from sentrep.data import SentRepDataModule
    from sentrep.data.sets.scored_pairs import ScoredPairs
    from sentrep.encoder import ProjectionHead, SentenceEncoder
    from sentrep.errors import InputError
    from sentrep.module import SentRepModule
    from sentrep.negatives import NegativeSampler
    from sentrep.objectives import Objective
    from sentrep.types import EncoderOutput, EncoderSpec, TextBatch, TokenBatch, Views
    from sentrep.views import Perturbation, TokenAugmentation, ViewMaker
    from sentrep.weighting import PairWeighting

_HOMES = {
    "EncoderOutput": "types",
    "EncoderSpec": "types",
    "InputError": "errors",
    "NegativeSampler": "negatives",
    "Objective": "objectives",
    "PairWeighting": "weighting",
    "Perturbation": "views",
    "ProjectionHead": "encoder",
    "ScoredPairs": "data.sets.scored_pairs",
    "SentRepDataModule": "data",
    "SentRepModule": "module",
    "SentenceEncoder": "encoder",
    "TextBatch": "types",
    "TokenAugmentation": "views",
    "TokenBatch": "types",
    "ViewMaker": "views",
    "Views": "types",
}

__all__ = [
    "EncoderOutput",
    "EncoderSpec",
    "InputError",
    "NegativeSampler",
    "Objective",
    "PairWeighting",
    "Perturbation",
    "ProjectionHead",
    "ScoredPairs",
    "SentRepDataModule",
    "SentRepModule",
    "SentenceEncoder",
    "TextBatch",
    "TokenAugmentation",
    "TokenBatch",
    "ViewMaker",
    "Views",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"sentrep.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sentrep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
