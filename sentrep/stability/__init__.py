"""What steadies training: optimisers that step with the gradient at perturbed weights, and a guard against NaN."""

from sentrep.stability.awp import AdversarialWeightPerturbation
from sentrep.stability.base import PerturbedWeights, refuse_gradient_scaler
from sentrep.stability.clipping import clip_gradients
from sentrep.stability.guard import NonFiniteGuard, SkippedStep
from sentrep.stability.replay import StepReplay, calls_again
from sentrep.stability.sam import SAM

__all__ = [
    "SAM",
    "AdversarialWeightPerturbation",
    "NonFiniteGuard",
    "PerturbedWeights",
    "SkippedStep",
    "StepReplay",
    "calls_again",
    "clip_gradients",
    "refuse_gradient_scaler",
]
