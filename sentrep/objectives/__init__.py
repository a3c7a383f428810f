"""The terms of the loss and their sum."""

from sentrep.objectives.alignment import Alignment
from sentrep.objectives.arc_con import ArcCon
from sentrep.objectives.base import Objective, WeightedSum
from sentrep.objectives.bidirectional_margin import BidirectionalMargin
from sentrep.objectives.binary_contrastive import BinaryContrastive
from sentrep.objectives.contrastive import Contrastive
from sentrep.objectives.contrastive_tension import ContrastiveTension
from sentrep.objectives.denoising import Denoising
from sentrep.objectives.distillation import Distillation
from sentrep.objectives.flow_likelihood import FlowLikelihood
from sentrep.objectives.information_reconstruction import InformationReconstruction
from sentrep.objectives.layer_contrast import LayerContrast
from sentrep.objectives.local_global_information import LocalGlobalInformation
from sentrep.objectives.masked_language_modeling import MaskedLanguageModeling
from sentrep.objectives.masked_triplet import MaskedTriplet
from sentrep.objectives.matryoshka import Matryoshka
from sentrep.objectives.momentum_contrast import MomentumContrast
from sentrep.objectives.nt_xent import NTXent
from sentrep.objectives.phrase_reconstruction import PhraseReconstruction
from sentrep.objectives.ranking_consistency import RankingConsistency
from sentrep.objectives.replaced_tokens import ReplacedTokenDetection
from sentrep.objectives.sign_flipped import SignFlippedContrastive
from sentrep.objectives.uncertainty_weighted import UncertaintyWeighted
from sentrep.objectives.uniformity import Uniformity

__all__ = [
    "Alignment",
    "ArcCon",
    "BidirectionalMargin",
    "BinaryContrastive",
    "Contrastive",
    "ContrastiveTension",
    "Denoising",
    "Distillation",
    "FlowLikelihood",
    "InformationReconstruction",
    "LayerContrast",
    "LocalGlobalInformation",
    "MaskedLanguageModeling",
    "MaskedTriplet",
    "Matryoshka",
    "MomentumContrast",
    "NTXent",
    "Objective",
    "PhraseReconstruction",
    "RankingConsistency",
    "ReplacedTokenDetection",
    "SignFlippedContrastive",
    "UncertaintyWeighted",
    "Uniformity",
    "WeightedSum",
]
