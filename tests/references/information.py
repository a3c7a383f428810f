"""InfoCSE's auxiliary masked LM, one sentence without padding at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def information_loop(
    vectors: Tensor, lower: Tensor, ids: Tensor, lengths: list[int], chosen: set[int], network: nn.ModuleList,
    head: nn.Module,
) -> Tensor:  # fmt: skip
    """Mean over the chosen positions (in the flattened batch) of −log p of their token."""
    losses = []
    for i, length in enumerate(lengths):
        states = torch.stack([vectors[i], *(lower[i, t].detach() for t in range(1, length))])
        for layer in network:
            states = layer(states[None])[0]
        for t, state in enumerate(states):
            if i * ids.shape[1] + t in chosen:
                losses.append(-torch.log(head(state[None])[0].softmax(0)[ids[i, t]]))
    return torch.stack(losses).mean()
