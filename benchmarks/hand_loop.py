"""The best training loop by hand for BERT on SimCSE: what a patient user writes for one model. See train_throughput.py.

Real tokens alone (packed), both views in one pass, one product for query, key and value, and the last layer for the CLS
token alone: its query, its attention, its feed-forward block. Dropout and products are torch's.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PackedBert(nn.Module):
    """CLS vectors (B, H) of a padded batch by a BERT of transformers, whose weights it takes over."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config = model.config
        self.heads, self.hidden = config.num_attention_heads, config.hidden_size
        self.dropout, self.attention_dropout = config.hidden_dropout_prob, config.attention_probs_dropout_prob
        self.embeddings, self.layers = model.embeddings, nn.ModuleList(map(_Layer, model.encoder.layer))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> Tensor:
        """Token ids (B, L) and mask to (B, H)."""
        shape = input_ids.shape
        mask = attention_mask.bool()
        index = mask.flatten().nonzero().flatten()
        starts = F.pad(mask.sum(1).cumsum(0), (1, 0))[:-1]
        own = self.embeddings
        x = own.word_embeddings(input_ids.flatten()[index]) + own.position_embeddings(index % shape[1])
        x = self._drop(own.LayerNorm(x + own.token_type_embeddings.weight[0]))
        hidden = ~mask[:, None, None, :]
        for layer in self.layers[:-1]:
            q, k, v = self._padded(layer.qkv(x), index, shape).unbind(2)
            mixed = self._attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), hidden)
            x = self._rest(layer, mixed.reshape(-1, self.hidden)[index], x)
        layer = self.layers[-1]
        first = x[starts]
        weight, bias = layer.qkv.weight, layer.qkv.bias
        query = F.linear(first, weight[: self.hidden], bias[: self.hidden])
        k, v = self._padded(F.linear(x, weight[self.hidden :], bias[self.hidden :]), index, shape).unbind(2)
        query = query.view(len(first), 1, self.heads, -1)
        mixed = self._attend(query.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), hidden)
        return self._rest(layer, mixed.reshape(-1, self.hidden), first)

    def _padded(self, x: Tensor, index: Tensor, shape: torch.Size) -> Tensor:
        """(T, n·H) to (B, L, n, heads, d)."""
        rows = x.new_zeros(shape.numel(), x.shape[-1]).index_copy_(0, index, x)
        return rows.view(*shape, x.shape[-1] // self.hidden, self.heads, self.hidden // self.heads)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
        scores = (query * query.shape[-1] ** -0.5 @ key.transpose(-1, -2)).masked_fill(hidden, -torch.inf)
        weights = F.dropout(scores.softmax(-1), self.attention_dropout, self.training)
        return (weights.to(value.dtype) @ value).transpose(1, 2)

    def _rest(self, layer: _Layer, mixed: Tensor, x: Tensor) -> Tensor:
        x = layer.attention_norm(self._drop(layer.output(mixed)) + x)
        return layer.norm(self._drop(layer.down(F.gelu(layer.up(x)))) + x)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


class _Layer(nn.Module):
    """A layer's weights, query, key and value in one matrix."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        own = layer.attention.self
        self.qkv = nn.Linear(own.query.in_features, 3 * own.query.out_features)
        for name in ("weight", "bias"):
            parts = [getattr(part, name).detach() for part in (own.query, own.key, own.value)]
            setattr(self.qkv, name, nn.Parameter(torch.cat(parts)))
        self.output, self.attention_norm = layer.attention.output.dense, layer.attention.output.LayerNorm
        self.up, self.down, self.norm = layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm
