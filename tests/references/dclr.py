"""Instance weighting as DCLR prints it (eq. 5 and 6), one pair at a time, and distillation likewise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from references.info_nce import cosine


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
    losses = []
    for i in range(len(anchors)):
        positive = torch.exp(cosine(anchors[i], positives[i]) / temperature)
        denominator = positive
        for j in range(len(positives)):
            if j != i:
                weight = alpha(judged_anchors[i], judged_keys[j], threshold)
                denominator = denominator + weight * torch.exp(cosine(anchors[i], positives[j]) / temperature)
        for n in noise:
            weight = alpha(judged_anchors[i], n, threshold) if mask_noise else 1.0
            denominator = denominator + weight * torch.exp(cosine(anchors[i], n) / temperature)
        losses.append(-torch.log(positive / denominator))
    return sum(losses[1:], losses[0]) / len(losses)


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


def distillation_loss(
    anchors: Tensor, positives: Tensor, taught_anchors: Tensor, taught_keys: Tensor, student_t: float, teacher_t: float
) -> Tensor:
    """Mean over i of Σ_j q_ij (log q_ij − log p_ij)."""
    total = anchors.new_zeros(())
    for i in range(len(anchors)):
        student = [torch.exp(cosine(anchors[i], key) / student_t) for key in positives]
        teacher = [math.exp(float(cosine(taught_anchors[i], key)) / teacher_t) for key in taught_keys]
        for p, q in zip(student, teacher, strict=True):
            target = q / sum(teacher)
            total = total + target * (math.log(target) - torch.log(p / sum(student[1:], student[0])))
    return total / len(anchors)
