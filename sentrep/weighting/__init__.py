"""How much each pair counts."""

from sentrep.weighting.base import PairWeighting
from sentrep.weighting.only_extra_negatives import OnlyExtraNegatives
from sentrep.weighting.threshold import ComplementaryWeighting, SelfWeighting

__all__ = ["ComplementaryWeighting", "OnlyExtraNegatives", "PairWeighting", "SelfWeighting"]
