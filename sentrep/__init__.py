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
    "data": ("SentRepDataModule",),
    "data.sets.scored_pairs": ("ScoredPairs",),
    "encoder": ("ProjectionHead", "SentenceEncoder"),
    "errors": ("InputError",),
    "module": ("SentRepModule",),
    "negatives": ("NegativeSampler",),
    "objectives": ("Objective",),
    "types": ("EncoderOutput", "EncoderSpec", "TextBatch", "TokenBatch", "Views"),
    "views": ("Perturbation", "TokenAugmentation", "ViewMaker"),
    "weighting": ("PairWeighting",),
}
"""The names of each module."""

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
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"sentrep.{module}"), name)
    raise AttributeError(f"module 'sentrep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
