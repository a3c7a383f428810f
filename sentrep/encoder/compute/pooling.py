"""Token states to one vector per sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from sentrep.encoder.compute.rows import token_states


@dataclass
class PoolingInput:
    """The inputs of a pooling."""

    layer: Callable[[int], Tensor]
    """Output of the embedding layer (0) or of a layer (from 1, or -1 for the last), (B, L, E) or (B, L, H)."""
    last: Tensor
    """(B, L, H) last hidden state (after a final norm, where the model has one)."""
    attention_mask: Tensor
    """(B, L)."""
    mask_index: Tensor | int | None
    """Where the prompt's mask stands: from the start (≥ 0) or from the end of the real tokens (< 0); (B,) where the
    sentences have several prompts."""
    pooler_output: Tensor | None
    """(B, H) of the model's own pooler, where it was built with one."""


def _mean(x: PoolingInput, layer: int | None = None) -> Tensor:
    """Over the real tokens, of the last states, or of what lies half-way between them and a layer's."""
    states = x.last if layer is None else (x.layer(layer) + x.last) / 2
    mask = x.attention_mask.unsqueeze(-1).to(states.dtype)
    return (states * mask).sum(1) / mask.sum(1).clamp_min(1)


def _max(x: PoolingInput) -> Tensor:
    padding = x.attention_mask.unsqueeze(-1) == 0
    return x.last.masked_fill(padding, torch.finfo(x.last.dtype).min).amax(1)


def _pooler(x: PoolingInput) -> Tensor:
    assert x.pooler_output is not None  # the encoder refuses backbones without a pooler
    return x.pooler_output


def _token(x: PoolingInput, pooling: str) -> Tensor:
    find = READS_ONE_TOKEN[pooling]
    return token_states(x.last, None if find is None else find(x.attention_mask, x.mask_index))


def _last_position(attention_mask: Tensor, mask_index: Tensor | int | None) -> Tensor:
    return attention_mask.sum(1) - 1


def _mask_position(attention_mask: Tensor, mask_index: Tensor | int | None) -> Tensor:
    assert mask_index is not None  # the encoder refuses this pooling without a prompt
    length = attention_mask.sum(1)
    if isinstance(mask_index, Tensor):
        return mask_index + length.where(mask_index < 0, 0)
    return length + mask_index if mask_index < 0 else torch.full_like(length, mask_index)


POOLINGS: dict[str, Callable[[PoolingInput], Tensor]] = {
    "cls": partial(_token, pooling="cls"),
    "mean": _mean,
    "max": _max,
    "last": partial(_token, pooling="last"),
    "mean_first_last": partial(_mean, layer=1),
    "mean_embedding_last": partial(_mean, layer=0),
    "mean_last_two": partial(_mean, layer=-2),
    "pooler": _pooler,
    "mask": partial(_token, pooling="mask"),
}
"""Poolings by name.

``mean_first_last`` averages the outputs of layer 1 and of the last layer (SimCSE's table of baselines);
``mean_embedding_last`` takes the embedding layer instead of layer 1 (SimCSE's released pooler). ``mask`` is the hidden
state of the prompt's mask token (PromptBERT, DenoSent).
"""

NEEDS_LAYERS = frozenset({"mean_first_last", "mean_embedding_last", "mean_last_two"})
"""The poolings that look at more than the last layer."""

READS_ONE_TOKEN: dict[str, Callable[[Tensor, Tensor | int | None], Tensor] | None] = {
    "cls": None,
    "last": _last_position,
    "mask": _mask_position,
}
"""Poolings that read one token of the last layer: from attention mask (B, L) and the prompt's mask index (see
`PoolingInput`) its position (B,); None: the first."""
