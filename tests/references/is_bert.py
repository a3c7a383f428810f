"""IS-BERT's convolutions and estimate of mutual information, one token and one sentence at a time."""

from __future__ import annotations

import torch
from torch import Tensor


def convolutions_loop(states: Tensor, layers: list[tuple[Tensor, Tensor]]) -> Tensor:
    """(T, H) states of a sentence's T real tokens → (T, D') features; layers are weight (F, H, k) and bias (F,)."""
    found = []
    for t in range(len(states)):
        parts = []
        for weight, bias in layers:
            size = weight.shape[2]
            value = bias
            for offset in range(size):
                place = t + offset - size // 2
                if 0 <= place < len(states):
                    value = value + weight[:, :, offset] @ states[place]
            parts.append(torch.relu(value))
        found.append(torch.cat(parts))
    return torch.stack(found)


def information_loop(features: list[Tensor], sentences: Tensor, score: Tensor) -> Tensor:
    """The loss, from each sentence's (T_i, D') features, vectors (N, D) and W (D, D')."""
    total = torch.zeros((), dtype=sentences.dtype)
    for i, tokens in enumerate(features):
        for c in tokens:
            term = torch.log(1 + torch.exp(-(sentences[i] @ score @ c)))
            for j in range(len(sentences)):
                if j != i:
                    term = term + torch.log(1 + torch.exp(sentences[j] @ score @ c)) / (len(sentences) - 1)
            total = total + term / len(tokens)
    return total / len(features)
