"""The InfoNCE loss that every contrastive method here shares."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep.functional.similarity import cosine_similarity_matrix


def info_nce(
    queries: Tensor,
    keys: Tensor,
    *,
    temperature: float,
    positives: Tensor | None = None,
    negatives: Tensor | None = None,
    weights: Tensor | None = None,
    negative_weight: float = 1.0,
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""InfoNCE over in-batch keys and extra negatives, with weighted pairs.

    For query i with the key p(i) as its positive, s = cosine / τ:

        ℓ_i = −log  exp(s(q_i, k_p(i))) / ( Σ_j w_ij exp(s(q_i, k_j)) + λ Σ_m w_im exp(s(q_i, n_m)) )

    The denominator holds the positive, as in all released code; GS-InfoNCE's eq. 5 has λ on the sum of exponentials.
    A weight 0 removes a pair from the softmax; the positive itself always has weight 1.

    Args:
        queries: (N, D) anchors.
        keys: (K, D) in-batch keys: the positives of all anchors, hard negatives too if wanted.
        temperature: τ > 0.
        positives: (N,) int64 column of each query's positive among the keys; default 0 … N−1.
        negatives: (M, D) extra negatives shared by all queries, or None.
        weights: (N, K+M) weights w in [0, ∞) on the exponentials, or None for all 1. No gradient flows into them.
        negative_weight: λ ≥ 0, on top of ``weights``, for the M extra negatives.
        label_smoothing: ε in [0, 1): the target gives 1 − ε to the positive and spreads ε evenly over all pairs that
            are left in the softmax (weight above 0), the positive included.

    Returns:
        Scalar float32 (float64 for float64 input): the mean of ℓ_i over the queries.

    Raises:
        ValueError: for a temperature that is not positive.

    Example:
        >>> x = torch.eye(3)
        >>> round(info_nce(x, x, temperature=1.0).item(), 4)  # −log e / (e + 2)
        0.5514
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    with torch.autocast(queries.device.type, enabled=False):
        logits = cosine_similarity_matrix(queries, keys) / temperature
        if negatives is not None:
            extra = cosine_similarity_matrix(queries, negatives) / temperature
            if negative_weight != 1.0:
                extra = extra + torch.log(torch.as_tensor(negative_weight, device=extra.device, dtype=extra.dtype))
            logits = torch.cat([logits, extra], dim=1)
        if positives is None:
            positives = torch.arange(len(queries), device=queries.device)
        if weights is not None:
            log_weights = weights.detach().to(logits.dtype).log()
            logits = logits + log_weights.scatter(1, positives[:, None], 0.0)
        if label_smoothing == 0.0:
            return F.cross_entropy(logits, positives)
        return _smoothed_cross_entropy(logits, positives, label_smoothing)


def _smoothed_cross_entropy(logits: Tensor, positives: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy with smoothing over the finite logits only: a removed pair (−∞) takes no share of ε."""
    log_p = F.log_softmax(logits, dim=1)
    kept = torch.isfinite(logits)
    spread = log_p.masked_fill(~kept, 0.0).sum(1) / kept.sum(1)
    hit = log_p.gather(1, positives[:, None]).squeeze(1)
    return -((1 - smoothing) * hit + smoothing * spread).mean()
