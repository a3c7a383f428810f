"""SNCSE (Wang et al. 2022): the bidirectional margin loss, one sentence at a time."""

from __future__ import annotations

from torch import Tensor


def bidirectional_margin_loop(anchor: Tensor, positive: Tensor, soft: Tensor, alpha: float, beta: float) -> Tensor:
    """Mean over i of ReLU(Δ_i + α) + ReLU(−Δ_i − β), with Δ_i = cos(h_i, h_i') − cos(h_i, h_i⁺)."""
    total = anchor.new_zeros(())
    for a, p, n in zip(anchor, positive, soft, strict=True):
        difference = a @ n / (a.norm() * n.norm()) - a @ p / (a.norm() * p.norm())
        if difference + alpha > 0:
            total = total + difference + alpha
        if -difference - beta > 0:
            total = total - difference - beta
    return total / len(anchor)
