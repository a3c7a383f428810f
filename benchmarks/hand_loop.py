"""The best training loop by hand for BERT on SimCSE: what a patient user writes for one model. See train_throughput.py.

Both views of a batch lie in a fixed number of rows of one width, so that few positions are padding and a compiled step
sees one shape. Query, key and value are one product, and the last layer is computed for the CLS token alone behind its
attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def pack(sentences: Sequence[list[int]], rows: int, width: int) -> dict[str, Tensor]:
    """Put token ids into rows, the longest sentence first, each into the fullest row with room for it.

    Returns:
        (rows, width) ids, positions and numbers of sentences (-1 on padding); (B,) where each sentence starts.
    """
    ids, positions = np.zeros((2, rows, width), np.int64)
    segments = np.full((rows, width), -1)
    first = np.zeros(len(sentences), np.int64)
    with_room: list[list[int]] = [[] for _ in range(width)] + [list(range(rows))]
    for number in sorted(range(len(sentences)), key=lambda number: -len(sentences[number])):
        length = len(sentences[number])
        room = next(room for room in range(length, width + 1) if with_room[room])
        row = with_room[room].pop()
        with_room[room - length].append(row)
        start = width - room
        place = row, slice(start, start + length)
        ids[place], positions[place], segments[place] = sentences[number], np.arange(length), number
        first[number] = row * width + start
    arrays = {"ids": ids, "positions": positions, "segments": segments, "first": first}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class PackedBert(nn.Module):
    """CLS vectors (B, H) of packed sentences by a BERT of transformers, whose weights it takes over."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config = model.config
        self.heads = config.num_attention_heads
        self.dropout, self.attention_dropout = config.hidden_dropout_prob, config.attention_probs_dropout_prob
        self.embeddings, self.layers = model.embeddings, nn.ModuleList(map(_Layer, model.encoder.layer))

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor, first: Tensor) -> Tensor:
        """Rows of `pack` to (B, H)."""
        apart = segments[:, None, :, None] != segments[:, None, None, :]
        products = torch.get_autocast_dtype(ids.device.type) if torch.is_autocast_enabled(ids.device.type) else None
        bias = torch.zeros(apart.shape, dtype=products, device=ids.device).masked_fill(apart, -torch.inf)
        own = self.embeddings
        x = own.word_embeddings(ids) + own.position_embeddings(positions) + own.token_type_embeddings.weight[0]
        x = self._drop(own.LayerNorm(x))
        *layers, last = self.layers
        for layer in layers:
            x = self._rest(layer, self._attend(layer, x, bias), x)
        mixed, x = (states.flatten(0, 1)[first] for states in (self._attend(last, x, bias), x))
        return self._rest(last, mixed, x)

    def _attend(self, layer: _Layer, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = layer.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        rate = self.attention_dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, bias, rate).transpose(1, 2).flatten(2)

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
        self.qkv = nn.Linear(own.query.in_features, 3 * own.query.out_features, device=own.query.weight.device)
        for name in ("weight", "bias"):
            parts = [getattr(part, name).detach() for part in (own.query, own.key, own.value)]
            setattr(self.qkv, name, nn.Parameter(torch.cat(parts)))
        self.output, self.attention_norm = layer.attention.output.dense, layer.attention.output.LayerNorm
        self.up, self.down, self.norm = layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm
