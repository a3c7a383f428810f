"""DiffCSE's difference prediction, one sentence and one token at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def detection_loop(
    backbone: Any, weight: Tensor, bias: Tensor, vectors: Tensor, edited: list[list[int]], original: list[list[int]]
) -> tuple[Tensor, float]:
    """Mean over all tokens of −log p(right answer), p = sigmoid of a linear function of the token's state.

    The share of right answers comes second.
    """
    losses, right = [], []
    for vector, read, wanted in zip(vectors, edited, original, strict=True):
        words = [vector] + [backbone.get_input_embeddings().weight[token] for token in read[1:]]
        states = backbone(inputs_embeds=torch.stack(words)[None]).last_hidden_state[0]
        for state, token, before in zip(states, read, wanted, strict=True):
            replaced = torch.sigmoid((weight[0] * state).sum() + bias[0])
            losses.append(-torch.log(replaced if token != before else 1 - replaced))
            right.append((replaced > 0.5) == (token != before))
    return torch.stack(losses).mean(), sum(map(float, right)) / len(right)
