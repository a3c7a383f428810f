"""Instance weighting as DCLR prints it (eq. 5 and 6), one pair at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from references.info_nce import cosine, info_nce_loop


def alpha(anchor: Tensor, negative: Tensor, threshold: float) -> float:
    """Eq. 5, with the complementary model's vectors."""
    return 0.0 if float(cosine(anchor, negative)) >= threshold else 1.0


def weighted_loss(
    anchors: Tensor,
    positives: Tensor,
    noise: Tensor,
    judged_anchors: Tensor,
    judged_keys: Tensor,
    threshold: float,
    temperature: float,
    mask_noise: bool,
) -> Tensor:
    """Eq. 6, the positive in the denominator as in all released code; ``judged`` are C's vectors of the sentences."""
    weights = [
        [alpha(anchor, key, threshold) for key in judged_keys]
        + [alpha(anchor, vector, threshold) if mask_noise else 1.0 for vector in noise]
        for anchor in judged_anchors
    ]
    own = [*range(len(anchors))]
    return info_nce_loop(anchors, positives, temperature, own, noise, torch.tensor(weights), 1.0, 0.0)


def released_loss(
    anchors: Tensor, positives: Tensor, noise: Tensor, weights: list[list[float]], temperature: float
) -> Tensor:
    """The loss of the authors' code: weighted logits, one softmax a row, a binary cross-entropy for each pair."""
    losses = []
    for i in range(len(anchors)):
        pairs = [*positives, *noise]
        logits = [
            (1.0 if j == i else weights[i][j]) * cosine(anchors[i], other) / temperature
            for j, other in enumerate(pairs)
        ]
        total = torch.exp(torch.stack(logits)).sum()
        for j, logit in enumerate(logits):
            p = torch.exp(logit) / total
            losses.append(-torch.log(p) if j == i else -torch.log(1 - p))
    return sum(losses[1:], losses[0]) / len(losses)
