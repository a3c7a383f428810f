"""The terms of the loss and their sum."""

from sentrep.objectives.alignment import Alignment
from sentrep.objectives.base import Objective
from sentrep.objectives.contrastive import Contrastive
from sentrep.objectives.contrastive_tension import ContrastiveTension
from sentrep.objectives.denoising import Denoising
from sentrep.objectives.distillation import Distillation
from sentrep.objectives.masked_language_modeling import MaskedLanguageModeling
from sentrep.objectives.momentum_contrast import MomentumContrast
from sentrep.objectives.sign_flipped import SignFlippedContrastive
from sentrep.objectives.uniformity import Uniformity
from sentrep.objectives.weighted_sum import WeightedSum

__all__ = [
    "Alignment",
    "Contrastive",
    "ContrastiveTension",
    "Denoising",
    "Distillation",
    "MaskedLanguageModeling",
    "MomentumContrast",
    "Objective",
    "SignFlippedContrastive",
    "Uniformity",
    "WeightedSum",
]
