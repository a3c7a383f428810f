"""Gradient clipping for every optimiser and precision."""

from __future__ import annotations

from typing import Literal

from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import Optimizer


def clip_gradients(optimizer: Optimizer, limit: float, algorithm: Literal["norm", "value"]) -> None:
    """Make the gradients of an optimiser's parameters no larger than ``limit``, in place.

        norm:   g ← g · min(1, limit / ‖g‖₂), over all parameters together;   value:   g ← max(−limit, min(limit, g))

    Lightning's clipping refuses fused optimisers in mixed precision. With a gradient scaler this is right, because
    fused optimisers unscale in their step (`refuse_gradient_scaler` refuses this case); without a scaler it is not
    needed. The norm is over the whole gradient, which DDP has averaged.

    Args:
        optimizer: whose gradients are complete: all micro-batches, all processes.
        limit: above 0.
        algorithm: ``norm`` or ``value``.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if algorithm == "value":
        clip_grad_value_(parameters, limit)
    else:
        clip_grad_norm_(parameters, limit)
