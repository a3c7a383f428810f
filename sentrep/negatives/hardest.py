"""The hardest draws of another sampler."""

from __future__ import annotations

from torch import Tensor

from sentrep import checks
from sentrep.config import check_initialised
from sentrep.functional.hardness import hardest
from sentrep.negatives.base import NegativeSampler
from sentrep.types import EncoderSpec


class HardestNegatives(NegativeSampler):
    """The share of another sampler's draws that are the most similar to an anchor (thesis, section 8).

    Of draws for all anchors it keeps those with the largest cosine to any anchor of the global batch; of draws for one
    anchor alone, those with the largest cosine to this anchor. λ is the other sampler's ``weight``.

    Args:
        sampler: makes the draws.
        share: in (0, 1] of the draws to keep, rounded, at least one.

    Raises:
        InputError: for a share out of range.

    Examples:
        >>> import torch
        >>> from sentrep import NegativeSampler
        >>> from sentrep.negatives import HardestNegatives
        >>> class Opposites(NegativeSampler):
        ...     def sample(self, anchors, keys):
        ...         return torch.cat([-keys, keys.flip(1)])
        >>> HardestNegatives(Opposites(), share=0.25).sample(torch.eye(2)[:1], torch.eye(2))
        tensor([[1., 0.]])
    """

    def __init__(self, sampler: NegativeSampler, share: float = 0.5) -> None:
        check_initialised(sampler, "sampler")
        super().__init__(sampler.weight)
        checks.within(self, 0, 1, open_below=True, share=share)
        self.sampler = sampler
        self.share = share
        self.with_gradient = sampler.with_gradient

    def build(self, spec: EncoderSpec, stream: str) -> None:
        """Build the other sampler, which draws what it would draw alone."""
        super().build(spec, stream)
        self.sampler.build(spec, stream)

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """The hardest (M', D) or (N, k', D) of the draws, in the order that they have."""
        return hardest(self.sampler.sample(anchors, keys).to(keys.dtype), anchors.detach(), self.share)

    def after_step(self, anchors: Tensor) -> None:
        """Pass the end of an optimiser step on."""
        self.sampler.after_step(anchors)
