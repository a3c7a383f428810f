"""The terms of the loss and their sum."""

from sentrep.objectives.base import Objective
from sentrep.objectives.contrastive import Contrastive
from sentrep.objectives.weighted_sum import WeightedSum

__all__ = ["Contrastive", "Objective", "WeightedSum"]
