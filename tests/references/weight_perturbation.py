"""SAM, ASAM and AWP as their papers print them."""

from __future__ import annotations

import torch
from torch import Tensor


def sam(weights: list[Tensor], gradients: list[Tensor], rho: float, adaptive: bool) -> list[Tensor]:
    """Foret et al. 2021, eq. 2 (p = 2); adaptive: Kwon et al. 2021 with T_w = diag(|w|). The perturbed weights."""
    scales = [weight.abs() if adaptive else torch.ones_like(weight) for weight in weights]
    scaled = [scale * gradient for scale, gradient in zip(scales, gradients, strict=True)]
    length = torch.cat([x.flatten() for x in scaled]).norm()
    return [w + rho * scale * x / length for w, scale, x in zip(weights, scales, scaled, strict=True)]


def awp(weights: list[Tensor], gradients: list[Tensor], gamma: float) -> list[Tensor]:
    """Wu et al. 2020, eq. 10 from v = 0 with one step of full length: v_l = γ ‖w_l‖ g_l / ‖g_l‖, matrices only."""
    return [w + gamma * w.norm() * g / g.norm() if w.ndim == 2 else w for w, g in zip(weights, gradients, strict=True)]
