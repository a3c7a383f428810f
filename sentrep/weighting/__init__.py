"""How much each pair counts."""

from sentrep.weighting.base import PairWeighting
from sentrep.weighting.complementary import ComplementaryWeighting
from sentrep.weighting.self_weighting import SelfWeighting

__all__ = ["ComplementaryWeighting", "PairWeighting", "SelfWeighting"]
