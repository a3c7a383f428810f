"""How far one list of scores is from another: the losses of learning to rank, and of two lists that should agree."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def list_net(scores: Tensor, wanted: Tensor) -> Tensor:
    """ListNet on the top-one probabilities (Cao et al. 2007), less the entropy of the target: the same gradient.

        mean_i KL(softmax(wanted_i) ‖ softmax(scores_i))

    Args:
        scores: (B, K) of a student, over its temperature.
        wanted: (B, K) of a teacher, over its temperature.
    """
    target = wanted.to(scores.dtype).log_softmax(1)
    return F.kl_div(scores.log_softmax(1), target, log_target=True, reduction="batchmean")


def list_mle(scores: Tensor, wanted: Tensor) -> Tensor:
    """ListMLE (Xia et al. 2008): −log of the probability that the scores give to the order that is wanted.

        mean_i Σ_t ( log Σ_{u ≥ t} exp(scores_{i,π(u)}) − scores_{i,π(t)} ),   π: the wanted scores from high to low

    Args:
        scores: (B, K) of a student, over its temperature.
        wanted: (B, K) of a teacher; only their order counts.

    Examples:
        >>> order = torch.tensor([[3.0, 2.0, 1.0]])
        >>> round(list_mle(torch.zeros(1, 3), order).item(), 4)  # log 3 + log 2 + log 1
        1.7918
    """
    ordered = scores.gather(1, wanted.argsort(1, descending=True))
    return (ordered.flip(1).logcumsumexp(1).flip(1) - ordered).sum(1).mean()


def jensen_shannon(one: Tensor, other: Tensor) -> Tensor:
    """Jensen-Shannon divergence of the softmaxes P, Q of two lists of logits (B, K), in [0, log 2]; mean over the rows.

    ½ KL(P ‖ M) + ½ KL(Q ‖ M),   M = (P + Q) / 2
    """
    p, q = one.log_softmax(1), other.log_softmax(1)
    middle = torch.logaddexp(p, q) - math.log(2)
    from_p, from_q = (F.kl_div(middle, x, log_target=True, reduction="batchmean") for x in (p, q))
    return (from_p + from_q) / 2
