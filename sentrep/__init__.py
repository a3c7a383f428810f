"""Train sentence-embedding models: pluggable contrastive and generative objectives on one encoder pass.

The names below are imported on first use, so that ``import sentrep`` (and ``sentrep --help``) cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentrep.lazy import lazy_names
from sentrep.version import __version__ as __version__

if TYPE_CHECKING:
    from sentrep.data import SentRepDataModule as SentRepDataModule
    from sentrep.data.sets.scored_pairs import ScoredPairs as ScoredPairs
    from sentrep.encoder import EncoderServices as EncoderServices
    from sentrep.encoder import ProjectionHead as ProjectionHead
    from sentrep.encoder import SentenceEncoder as SentenceEncoder
    from sentrep.errors import InputError as InputError
    from sentrep.module import SentRepModule as SentRepModule
    from sentrep.negatives import NegativeSampler as NegativeSampler
    from sentrep.objectives import Objective as Objective
    from sentrep.types import EncoderOutput as EncoderOutput
    from sentrep.types import EncoderSpec as EncoderSpec
    from sentrep.types import TextBatch as TextBatch
    from sentrep.types import TokenBatch as TokenBatch
    from sentrep.types import Views as Views
    from sentrep.views import Perturbation as Perturbation
    from sentrep.views import TokenAugmentation as TokenAugmentation
    from sentrep.views import ViewMaker as ViewMaker
    from sentrep.weighting import PairWeighting as PairWeighting

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "data": ("SentRepDataModule",),
        "data.sets.scored_pairs": ("ScoredPairs",),
        "encoder": ("EncoderServices", "ProjectionHead", "SentenceEncoder"),
        "errors": ("InputError",),
        "module": ("SentRepModule",),
        "negatives": ("NegativeSampler",),
        "objectives": ("Objective",),
        "types": ("EncoderOutput", "EncoderSpec", "TextBatch", "TokenBatch", "Views"),
        "views": ("Perturbation", "TokenAugmentation", "ViewMaker"),
        "weighting": ("PairWeighting",),
        "version": ("__version__",),
    },
)
