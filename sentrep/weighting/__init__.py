"""How much each pair counts."""

from sentrep.weighting.base import PairWeighting
from sentrep.weighting.threshold import ComplementaryWeighting, SelfWeighting

__all__ = ["ComplementaryWeighting", "PairWeighting", "SelfWeighting"]
