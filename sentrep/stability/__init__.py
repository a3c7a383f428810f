"""Optimisers that steady training: they step with the gradient at perturbed weights."""

from sentrep.stability.awp import AdversarialWeightPerturbation
from sentrep.stability.base import PerturbedWeights, refuse_gradient_scaler
from sentrep.stability.replay import StepReplay
from sentrep.stability.sam import SAM

__all__ = ["SAM", "AdversarialWeightPerturbation", "PerturbedWeights", "StepReplay", "refuse_gradient_scaler"]
