"""SAM, ASAM and AWP by their papers, one number at a time."""

from __future__ import annotations

import math

from torch import Tensor


def sam_loop(weights: list[Tensor], gradients: list[Tensor], rho: float, adaptive: bool) -> list[Tensor]:
    """Foret et al. 2021, eq. 2 (p = 2); adaptive: Kwon et al. 2021 with T_w = diag(|w|). The perturbed weights."""
    total = 0.0
    for weight, gradient in zip(weights, gradients, strict=True):
        for w, g in zip(weight.flatten().tolist(), gradient.flatten().tolist(), strict=True):
            total += (abs(w) * g) ** 2 if adaptive else g**2
    perturbed = []
    for weight, gradient in zip(weights, gradients, strict=True):
        moved = weight.clone().flatten()
        for i, (w, g) in enumerate(zip(weight.flatten().tolist(), gradient.flatten().tolist(), strict=True)):
            moved[i] += rho * (w**2 * g if adaptive else g) / math.sqrt(total)
        perturbed.append(moved.reshape(weight.shape))
    return perturbed


def awp_loop(weights: list[Tensor], gradients: list[Tensor], gamma: float) -> list[Tensor]:
    """Wu et al. 2020, eq. 10 from v = 0 with one step of full length: v_l = γ ‖w_l‖ g_l / ‖g_l‖, matrices only."""
    perturbed = []
    for weight, gradient in zip(weights, gradients, strict=True):
        moved = weight.clone()
        if weight.ndim == 2:
            length = math.sqrt(sum(w * w for w in weight.flatten().tolist()))
            slope = math.sqrt(sum(g * g for g in gradient.flatten().tolist()))
            for i in range(weight.shape[0]):
                for j in range(weight.shape[1]):
                    moved[i, j] += gamma * length * float(gradient[i, j]) / slope
        perturbed.append(moved)
    return perturbed
