"""The pass of BERT's family, layer by layer; the last layer may be computed for one token of each sentence."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from sentrep.encoder.compute.rows import PackedRows
from sentrep.random import forked_draws

FAMILIES = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
"""Families with ``embeddings`` and ``encoder.layer``, whose layers have ``attention.self``."""


def is_bert(backbone: PreTrainedModel) -> bool:
    """Whether `run` takes the backbone: one of the families, in which every token sees the whole sentence."""
    return backbone.config.model_type in FAMILIES and not backbone.config.is_decoder


def run(
    backbone: Any,
    ids: Tensor,
    words: Tensor | None,
    rows: PackedRows,
    position: Tensor | None,
    early: bool,
    token_only: bool,
) -> tuple[list[Tensor], Tensor | None]:
    """Run the embedding layer and all layers.

    No token of the last layer looks at another one's output. A vector that is one token's state needs the keys and
    values of all tokens, but the query, the attention and the feed-forward block of its own token only.

    Args:
        backbone: of `FAMILIES`.
        ids: (B, l) token ids of the padded batch.
        words: (B, l, W) word embeddings in place of looking the ids up, or None.
        rows: of the batch.
        position: (B,) the read token of each sentence; None for the first.
        early: compute the last layer for the read token first. The other tokens follow without moving torch's
            generator, so that no later dropout depends on whether they follow.
        token_only: with ``early``, leave the other tokens out.

    Returns:
        The states (R, L, H) after 0, 1, … layers, without the last layer's if only the token was computed; and the
        token's last state (B, H), or None where it was not computed first.
    """
    source = {"input_ids": rows.of_tokens(ids)} if words is None else {"inputs_embeds": rows.of_tokens(words)}
    embedded = backbone.embeddings(**source, position_ids=rows.position_ids)
    projection = getattr(backbone, "embeddings_project", None)  # ELECTRA's, where its embeddings are narrower
    states = [embedded if projection is None else projection(embedded)]
    bias = rows.bias(computed_in(states[0]))
    *layers, last = backbone.encoder.layer
    for layer in layers:
        states.append(layer(states[-1], bias))
    if not early or (backbone.training and getattr(last, "gradient_checkpointing", False)):
        return [*states, last(states[-1], bias)], None
    token = one_token(last, states[-1], rows, position)
    if token_only:
        return states, token
    with forked_draws(token.device):
        whole = last(states[-1], bias)
    return [*states, rows.with_one_token(whole, position, token)], token


def one_token(layer: Any, states: Tensor, rows: PackedRows, position: Tensor | None) -> Tensor:
    """A layer's output (B, H) for one token of each sentence.

    Args:
        layer: of `FAMILIES`.
        states: (R, L, H), the layer's input.
        rows: of the batch.
        position: (B,) of the token in its sentence; None for the first.
    """
    own = layer.attention.self
    shape = (own.num_attention_heads, own.attention_head_size)
    token = rows.one_token(states, position)
    query = own.query(token).view(token.shape[0], 1, *shape).transpose(1, 2)
    key, value = (rows.of_sentences(part(states)).unflatten(2, shape).transpose(1, 2) for part in (own.key, own.value))
    visible = None if rows.is_full else rows.visible[:, None, None].bool()
    rate = own.dropout.p if own.training else 0.0
    mixed = F.scaled_dot_product_attention(query, key, value, visible, rate)
    return layer.feed_forward_chunk(layer.attention.output(mixed.flatten(1), token))


def computed_in(x: Tensor) -> torch.dtype:
    """The type of queries and keys that come from ``x``: autocast's type, if autocast is on."""
    device = x.device.type
    cast = x.dtype != torch.float64 and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if cast else x.dtype
