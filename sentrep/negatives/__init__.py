"""What else to push away from."""

from sentrep.negatives.base import NegativeSampler

__all__ = ["NegativeSampler"]
