"""From the similarity of a pair to its weight."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sentrep import checks, distributed

Kind = Literal["hard", "soft"]


class Threshold:
    """Weight of a negative that is as similar as s to its anchor, with the threshold φ.

        hard:  w = 0 where s ≥ φ, else 1                     (DCLR, eq. 5)
        soft:  w = sigmoid((φ − s) / softness), ½ at φ       (our extension; tends to ``hard`` as softness → 0)

    Both fall with s and lie in [0, 1].

    Args:
        threshold: φ in [−1, 1].
        kind: ``hard`` or ``soft``.
        softness: > 0, over how wide a range of cosines the soft weight falls; ``hard`` does without it.

    Raises:
        InputError: for values out of range.

    Examples:
        >>> Threshold(0.9)(torch.tensor([0.2, 0.9, 1.0]))
        tensor([1., 0., 0.])
        >>> Threshold(0.9, "soft", 0.1)(torch.tensor([0.0, 0.9, 1.0]))
        tensor([0.9999, 0.5000, 0.2689])
    """

    def __init__(self, threshold: float, kind: Kind = "hard", softness: float = 0.05) -> None:
        checks.within("weighting", -1, 1, threshold=threshold)
        checks.one_of("weighting", ("hard", "soft"), kind=kind)
        checks.positive("weighting", softness=softness)
        self.threshold = threshold
        self.kind = kind
        self.softness = softness

    def __call__(self, similarity: Tensor) -> Tensor:
        """Weights of the shape of ``similarity`` (cosines, float32)."""
        if self.kind == "hard":
            return (similarity < self.threshold).float()
        return torch.sigmoid((self.threshold - similarity) / self.softness)


def removed(weights: Tensor, keys: int) -> dict[str, Tensor]:
    """How much of the negatives a weighting takes away: the mean of 1 − w, with hard weights the share of masked pairs.

    Args:
        weights: (B, N + M); the positives' places do not count.
        keys: N, the number of in-batch keys.

    Returns:
        ``masked`` over the in-batch negatives, where there are any, and ``masked_extra`` over the M others.
    """
    lost = 1 - weights
    in_batch = lost[:, :keys].scatter(1, distributed.own_rows(len(weights), weights.device)[:, None], 0.0)
    shares = {}
    if keys > 1:
        shares["masked"] = in_batch.sum() / (len(weights) * (keys - 1))
    if weights.shape[1] > keys:
        shares["masked_extra"] = lost[:, keys:].mean()
    return shares
