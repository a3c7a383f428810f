"""How positives are made."""

from sentrep.views.adversarial import FGSM
from sentrep.views.base import ViewMaker
from sentrep.views.encoded import EncodedViews
from sentrep.views.extra_only import ExtraInputsOnly
from sentrep.views.features import FeatureDropout, FeatureMask
from sentrep.views.noise import BatchGaussianNoise, BernoulliDropout, GaussianDropout, GaussianNoise
from sentrep.views.output import OutputPerturbedViews
from sentrep.views.perturbation import Perturbation
from sentrep.views.token_augmentation import TokenAugmentation
from sentrep.views.token_ids import TokenDeletion, TokenSwap, WordRepetition
from sentrep.views.tokens import SpanCutoff, TokenCutoff, TokenShuffling

__all__ = [
    "FGSM",
    "BatchGaussianNoise",
    "BernoulliDropout",
    "EncodedViews",
    "ExtraInputsOnly",
    "FeatureDropout",
    "FeatureMask",
    "GaussianDropout",
    "GaussianNoise",
    "OutputPerturbedViews",
    "Perturbation",
    "SpanCutoff",
    "TokenAugmentation",
    "TokenCutoff",
    "TokenDeletion",
    "TokenShuffling",
    "TokenSwap",
    "ViewMaker",
    "WordRepetition",
]
