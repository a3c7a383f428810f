"""Which way a batch takes through the encoder in training: in groups of rows or at once, compiled or not."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sentrep.encoder.compute import compiled, forward
from sentrep.encoder.compute.chunks import in_length_chunks, recomputed, vectors_only
from sentrep.types import EncoderOutput, TokenBatch

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder


def training_pass(encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None) -> EncoderOutput:
    """See `SentenceEncoder.forward`."""
    run = functools.partial(_pass, encoder)
    if encoder.grad_cache_chunk is not None and torch.is_grad_enabled():
        groups = math.ceil(len(tokens) / encoder.grad_cache_chunk)
        return in_length_chunks(recomputed(run), tokens, word_embeddings, groups)
    chunks = encoder.chunks
    joined = encoder.joins_groups and encoder.compile_mode is None
    if chunks is None:
        chunks = 1 if tokens.input_ids.device.type != "cpu" or encoder.packed else 8 if joined else 4
    if chunks == 1 or len(tokens) < 2 * chunks:
        return run(tokens, word_embeddings)
    if joined:
        return run(tokens, word_embeddings, groups=chunks)
    if word_embeddings is None and torch.is_grad_enabled():
        word_embeddings = encoder.look_up(tokens)  # once: every look-up has a gradient of the vocabulary's size
    return in_length_chunks(run, tokens, word_embeddings, chunks)


def _pass(
    encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None, groups: int = 1
) -> EncoderOutput:
    if encoder.compile_mode is not None:
        return compiled.run(encoder, tokens, word_embeddings, encoder.compile_mode)
    if not encoder.keeps_tokens:
        return vectors_only(forward.pooled_alone(encoder, tokens, word_embeddings, groups))
    pooled, output = forward.run(encoder, tokens, word_embeddings, groups)
    return EncoderOutput(pooled, output.last_hidden_state, output.hidden_states[0])
