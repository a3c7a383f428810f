"""InfoCSE's auxiliary masked LM, sentence by sentence and token by token."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def attention(x: list[Tensor], weights: dict[str, Tensor], heads: int) -> list[Tensor]:
    """Of every token to all tokens of its sentence, head by head."""
    width = len(x[0])
    size = width // heads
    projected = [weights["self_attn.in_proj_weight"] @ token + weights["self_attn.in_proj_bias"] for token in x]
    out = []
    for query in projected:
        parts = []
        for head in range(heads):
            columns = slice(head * size, (head + 1) * size)
            scores = torch.stack([query[:width][columns] @ key[width : 2 * width][columns] for key in projected])
            shares = torch.exp(scores / size**0.5) / torch.exp(scores / size**0.5).sum()
            values = [key[2 * width :][columns] for key in projected]
            parts.append(torch.stack([share * value for share, value in zip(shares, values, strict=True)]).sum(0))
        out.append(weights["self_attn.out_proj.weight"] @ torch.cat(parts) + weights["self_attn.out_proj.bias"])
    return out


def normed(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    scaled = (x - x.mean()) / ((x - x.mean()).square().mean() + 1e-5).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def transformer_layer(x: list[Tensor], weights: dict[str, Tensor], heads: int) -> list[Tensor]:
    """Attention, then a hidden layer, each added and normed (Vaswani et al. 2017)."""
    out = []
    for token, seen in zip(x, attention(x, weights, heads), strict=True):
        token = normed(token + seen, weights, "norm1")
        hidden = nn.functional.gelu(weights["linear1.weight"] @ token + weights["linear1.bias"])
        out.append(normed(token + weights["linear2.weight"] @ hidden + weights["linear2.bias"], weights, "norm2"))
    return out


def information_loop(
    vectors: Tensor, lower: Tensor, ids: Tensor, lengths: list[int], chosen: set[int], network: nn.ModuleList,
    heads: int, head: nn.Module,
) -> Tensor:  # fmt: skip
    """Mean over the chosen positions (in the flattened batch) of −log p of their token."""
    losses = []
    for i, length in enumerate(lengths):
        states = [vectors[i], *(lower[i, t].detach() for t in range(1, length))]
        for layer in network:
            states = transformer_layer(states, dict(layer.named_parameters()), heads)
        for t, state in enumerate(states):
            if i * ids.shape[1] + t in chosen:
                losses.append(-torch.log(head(state[None])[0].softmax(0)[ids[i, t]]))
    return torch.stack(losses).mean()
