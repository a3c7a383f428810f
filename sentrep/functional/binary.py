"""A cross-entropy for every pair by itself, over the softmax of its row."""

from __future__ import annotations

import torch
from torch import Tensor

from sentrep.functional.similarity import unit


def binary_info_nce(
    queries: Tensor,
    keys: Tensor,
    *,
    temperature: float,
    positives: Tensor | None = None,
    negatives: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    r"""The loss of DCLR's released code: every pair is a yes or a no.

    With one softmax for each query over all keys and extra negatives, y = 1 for the pair of a query and its positive
    and 0 elsewhere:

        p_i = softmax_j(w_ij cos(q_i, k_j) / τ),     ℓ = mean over i, j of −[y_ij log p_ij + (1 − y_ij) log(1 − p_ij)]

    A weight multiplies the logit, so a pair of weight 0 stays in the softmax with exp(0). The positive itself always
    has weight 1. The mean is over all N·(K+M) pairs, so the gradient is about 1 / (K+M) of `info_nce`'s.

    Args:
        queries: (N, D) anchors.
        keys: (K, D) in-batch keys: the positives of all anchors.
        temperature: τ > 0.
        positives: (N,) int64 column of each query's positive among the keys; default 0 … N−1.
        negatives: (M, D) extra negatives shared by all queries, or None.
        weights: (N, K+M) weights w ≥ 0 on the logits, or None for all 1. No gradient flows into them.

    Returns:
        Scalar float32 (float64 for float64 input).

    Examples:
        >>> x = torch.eye(3)
        >>> round(binary_info_nce(x, x, temperature=1.0).item(), 4)
        0.3426
    """
    if positives is None:
        positives = torch.arange(len(queries), device=queries.device)
    own = positives[:, None]
    with torch.autocast(queries.device.type, enabled=False):
        columns = unit(keys)
        if negatives is not None:
            columns = torch.cat([columns, unit(negatives)])
        logits = unit(queries) @ columns.T / temperature
        if weights is not None:
            logits = logits * weights.detach().to(logits.dtype).scatter(1, own, 1.0)
        log_p = logits.log_softmax(1)
        p = log_p.exp().scatter(1, own, 0.0)
        # a probability that rounds to 1 has no finite log(1 − p)
        yes, no = log_p.gather(1, own), torch.log1p(-p.clamp_max(1 - torch.finfo(p.dtype).eps))
        return -(yes.sum() + no.sum()) / logits.numel()
