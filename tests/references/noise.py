"""DCLR's noise refinement as the paper prints it: one anchor at a time, the gradient by autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from references.info_nce import cosine


def non_uniformity(noise: Tensor, anchors: Tensor, positives: Tensor, temperature: float, denominator: str) -> Tensor:
    """Mean over the anchors of eq. 2; with the in-batch keys in the denominator too for ``batch_and_noise``."""
    losses = []
    for i in range(len(anchors)):
        exponents = [cosine(anchors[i], vector) / temperature for vector in noise]
        if denominator == "batch_and_noise":
            exponents += [cosine(anchors[i], key) / temperature for key in positives]
        losses.append(-cosine(anchors[i], positives[i]) / temperature + torch.logsumexp(torch.stack(exponents), 0))
    return torch.stack(losses).mean()


def refine_noise_autograd(
    noise: Tensor,
    anchors: Tensor,
    positives: Tensor,
    temperature: float,
    steps: int,
    step_size: float,
    denominator: str,
) -> Tensor:
    """Eq. 3 and 4, vector by vector."""
    for _ in range(steps):
        leaf = noise.detach().clone().requires_grad_()
        non_uniformity(leaf, anchors, positives, temperature, denominator).backward()
        assert leaf.grad is not None
        noise = torch.stack([z + step_size * g / g.norm() for z, g in zip(noise, leaf.grad, strict=True)])
    return noise.detach()
