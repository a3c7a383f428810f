"""Noise vectors pushed towards where the embeddings are crowded."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sentrep.functional.similarity import unit

# The gradient below is a convex combination of unit vectors minus a projection: shorter gradients are rounding.
_ROUNDING = 1e-6


@torch.no_grad()
def refine_noise(
    noise: Tensor,
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    steps: int = 4,
    step_size: float = 1e-3,
    denominator: Literal["noise", "batch_and_noise"] = "noise",
) -> Tensor:
    r"""Noise vectors after some steps of gradient ascent on DCLR's non-uniformity loss (eq. 2–4).

    With s = cosine / τ, and the mean over the anchors as the loss that every vector climbs by its own unit gradient:

        L_U = mean_i −log  exp(s(h_i, h_i⁺)) / Σ_j exp(s(h_i, ĥ_j)),     ĥ_j ← ĥ_j + β g(ĥ_j) / ‖g(ĥ_j)‖₂

    ``denominator="noise"`` is eq. 2 as printed: the numerator does not depend on the noise, so that the positives have
    no effect. ``"batch_and_noise"`` is the authors' released code: the cross-entropy over [in-batch | noise], with
    Σ_k exp(s(h_i, h_k⁺)) added to the sum. The released code builds an N×M×D broadcast and calls autograd for every
    step; here the gradient has a closed form. With unit vectors a_i of the anchors and n_j of the noise, and P the
    softmax over the denominator:

        g(ĥ_j) = (u_j − (u_j·n_j) n_j) / ‖ĥ_j‖,     u_j = Σ_i P_ij a_i / (N τ)

    which costs O(N·M·D) work and O(N·M + M·D) memory. A vector does not change if its gradient is zero, below rounding,
    or NaN (the released code sets such a vector to 0).

    Args:
        noise: (M, D), any floating type.
        anchors: (N, D).
        positives: (N, D).
        temperature: τ_u > 0.
        steps: t ≥ 0; 0 returns the noise as it came.
        step_size: β > 0, the length of every step.
        denominator: the vectors that the softmax runs over; see above.

    Returns:
        (M, D) float32 (float64 for float64 input), a new tensor without gradient.

    Raises:
        ValueError: for values out of range.

    Examples:
        >>> noise, anchor = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
        >>> refine_noise(noise, anchor, anchor, temperature=0.05, steps=1, step_size=0.5)
        tensor([[0.5000, 1.0000]])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if steps < 0 or not step_size > 0:
        raise ValueError(f"steps must be 0 or more and step_size positive, got {steps} and {step_size}")
    if denominator not in ("noise", "batch_and_noise"):
        raise ValueError(f"denominator must be 'noise' or 'batch_and_noise', got {denominator!r}")
    with torch.autocast(noise.device.type, enabled=False):
        rows = unit(anchors)
        refined = noise.to(torch.promote_types(noise.dtype, rows.dtype), copy=True)
        batch = None
        if denominator == "batch_and_noise":
            # this part of the sum stays the same from step to step: one number per anchor
            batch = torch.logsumexp(rows @ unit(positives).T / temperature, dim=1, keepdim=True)
        for _ in range(steps):
            refined += step_size * _ascent(refined, rows, batch, temperature)
        return refined


def _ascent(noise: Tensor, anchors: Tensor, batch: Tensor | None, temperature: float) -> Tensor:
    """g / ‖g‖ of every noise vector (M, D), or 0 for a zero vector.

    A factor per vector cancels in g / ‖g‖. So 1/‖ĥ‖ and 1/(N τ) are left out, and the column P_·j is scaled to sum to 1
    by a second softmax: a direction is then found even where P itself underflows.
    """
    directions = unit(noise)
    logits = anchors @ directions.T / temperature
    total = torch.logsumexp(logits, dim=1, keepdim=True)
    if batch is not None:
        total = torch.logaddexp(total, batch)
    pull = torch.softmax(logits - total, dim=0).T @ anchors
    gradient = pull - (pull * directions).sum(1, keepdim=True) * directions
    length = gradient.norm(dim=1, keepdim=True)
    moves = (length > _ROUNDING) & directions.any(1, keepdim=True)  # false for NaN and for a zero vector
    return torch.where(moves, gradient / length, torch.zeros_like(gradient))
