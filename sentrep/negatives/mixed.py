"""The positive, mixed with another sentence (MixCSE)."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep import checks
from sentrep.functional.similarity import unit
from sentrep.negatives.base import NegativeSampler


class MixedNegatives(NegativeSampler):
    """One hard negative of each anchor alone: its positive, mixed with another sentence (MixCSE, Zhang et al. 2022).

        h̃_i = (λ h_i⁺ + (1 − λ) h_j⁺) / ‖λ h_i⁺ + (1 − λ) h_j⁺‖,   j ≠ i of the global batch at random, ‖h⁺‖ = 1

    Zhang, Zhang, Mensah, Liu, Mao: Unsupervised Sentence Representation via Contrastive Learning with Mixing Negatives,
    AAAI 2022. No gradient flows through h̃. A batch of one sentence gets no negatives.

    We follow the paper, not the released code. In the code j is the next sentence of the batch, vectors are not
    normalised before mixing, the mixtures of other anchors are negatives, too, and mixtures
    of anchors are also negatives of the positives.

    Args:
        share: λ in [0, 1), of the positive in the mixture; the paper's is 0.2.
        weight: on the exponential of h̃; see `NegativeSampler`.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from sentrep.negatives import MixedNegatives
        >>> sampler = MixedNegatives(share=0.2)
        >>> sampler.build(SimpleNamespace(seed=0, embedding_dim=8, name=""), "noise")
        >>> sampler.sample(torch.randn(4, 8), torch.randn(4, 8)).shape
        torch.Size([4, 1, 8])
    """

    def __init__(self, share: float = 0.2, weight: float = 1.0) -> None:
        super().__init__(weight)
        checks.share(self, share=share)
        self.share = share

    def sample(self, anchors: Tensor, keys: Tensor) -> Tensor:
        """The mixtures (N, 1, D), of length 1; (N, 0, D) for a single sentence."""
        size, keys = len(keys), unit(keys)
        if size < 2:
            return keys[:, None][:, :0]
        steps = torch.randint(1, size, (size,), generator=self.generator(keys.device), device=keys.device)
        others = keys[(torch.arange(size, device=keys.device) + steps) % size]
        return unit(self.share * keys + (1 - self.share) * others)[:, None]
