"""How much each pair counts."""

from sentrep.weighting.base import PairWeighting

__all__ = ["PairWeighting"]
