"""SG-OPT's loss, one sentence and one layer at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from references.info_nce import cosine


def layer_contrast_loop(
    vectors: Tensor, layers: list[Tensor], lengths: list[int], f: nn.Module, temperature: float
) -> Tensor:
    """Mean over sentences i and layers k of −log of their share; layers: (B, L, H) each, of the frozen copy."""
    means = [
        [sum(states[i, t] for t in range(length)) / length for states in layers] for i, length in enumerate(lengths)
    ]
    projected = [f(vector) for vector in vectors]
    guides = [[f(mean) for mean in of_sentence] for of_sentence in means]
    losses = []
    for i, vector in enumerate(projected):
        for own in guides[i]:
            near = torch.exp(cosine(vector, own) / temperature)
            far = [
                torch.exp(cosine(vector, other) / temperature)
                for j, of_sentence in enumerate(guides)
                for other in of_sentence
                if j != i
            ]
            losses.append(-torch.log(near / (near + torch.stack(far).sum())))
    return torch.stack(losses).mean()
