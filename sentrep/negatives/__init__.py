"""What else to push away from."""

from sentrep.negatives.base import NegativeSampler
from sentrep.negatives.batch_gaussian import BatchGaussianNegatives
from sentrep.negatives.gaussian import GaussianNegatives
from sentrep.negatives.gaussian_mixture import GaussianMixtureNegatives
from sentrep.negatives.hardest import HardestNegatives
from sentrep.negatives.memory_bank import MemoryBank
from sentrep.negatives.mixed import MixedNegatives
from sentrep.negatives.noisy_anchor import NoisyAnchorNegatives
from sentrep.negatives.refined_noise import RefinedNoiseNegatives
from sentrep.negatives.vae import VAENegatives

__all__ = [
    "BatchGaussianNegatives",
    "GaussianMixtureNegatives",
    "GaussianNegatives",
    "HardestNegatives",
    "MemoryBank",
    "MixedNegatives",
    "NegativeSampler",
    "NoisyAnchorNegatives",
    "RefinedNoiseNegatives",
    "VAENegatives",
]
