"""InfoNCE as the papers print it, one pair at a time."""

from __future__ import annotations

import torch
from torch import Tensor


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.pow(2).sum().sqrt() * b.pow(2).sum().sqrt())


def info_nce_loop(
    queries: Tensor,
    keys: Tensor,
    temperature: float,
    positives: list[int],
    negatives: Tensor | None,
    weights: Tensor | None,
    negative_weight: float,
    label_smoothing: float,
    row_negatives: Tensor | None = None,
) -> Tensor:
    """Mean over i of the smoothed −log p_i, with p from weighted exponentials summed one by one."""
    losses = []
    for i in range(len(queries)):
        terms: list[Tensor] = []  # weighted exponentials of the pairs that count
        positive_term = None
        for j in range(len(keys)):
            weight = 1.0 if weights is None or j == positives[i] else float(weights[i, j])
            if weight == 0.0:
                continue
            term = weight * torch.exp(cosine(queries[i], keys[j]) / temperature)
            terms.append(term)
            if j == positives[i]:
                positive_term = term
        further = [*(() if negatives is None else negatives), *(() if row_negatives is None else row_negatives[i])]
        for m in range(len(further)):
            weight = negative_weight * (1.0 if weights is None else float(weights[i, len(keys) + m]))
            if weight == 0.0:
                continue
            terms.append(weight * torch.exp(cosine(queries[i], further[m]) / temperature))
        denominator = terms[0]
        for term in terms[1:]:
            denominator = denominator + term
        assert positive_term is not None
        loss = -(1 - label_smoothing) * torch.log(positive_term / denominator)
        for term in terms:
            loss = loss - label_smoothing / len(terms) * torch.log(term / denominator)
        losses.append(loss)
    return sum(losses[1:], losses[0]) / len(losses)


def sign_flipped_loop(first: Tensor, second: Tensor, temperature: float, scale: float) -> Tensor:
    """The thesis's code for "FGSM" at the output: the positive's sign flipped, clipped to [0, 20], cross-entropy."""
    losses = []
    for i in range(len(first)):
        logits = []
        for j in range(len(first)):
            logit = (-1 if i == j else scale) * cosine(first[i], second[j]) / temperature
            value = float(logit.detach())
            logits.append(logit if 0 <= value <= 20 else torch.full_like(logit, min(max(value, 0.0), 20.0)))
        losses.append(-torch.log(torch.exp(logits[i]) / torch.exp(torch.stack(logits)).sum()))
    return torch.stack(losses).mean()


def nt_xent_loop(first: Tensor, second: Tensor, temperature: float, negatives: list[Tensor]) -> Tensor:
    """SimCLR, algorithm 1, over 2N views; every view is pushed away from further negatives too."""
    views = [*first, *second]
    losses = []
    for i, view in enumerate(views):
        partner = (i + len(first)) % len(views)
        others = [other for k, other in enumerate(views) if k != i] + negatives
        total = torch.stack([torch.exp(cosine(view, other) / temperature) for other in others]).sum()
        losses.append(-torch.log(torch.exp(cosine(view, views[partner]) / temperature) / total))
    return torch.stack(losses).mean()


def uniformity_loop(x: Tensor) -> Tensor:
    terms = []
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            a, b = x[i] / x[i].norm(), x[j] / x[j].norm()
            terms.append(torch.exp(-2 * (a - b).pow(2).sum()))
    return torch.stack(terms).mean().log()
