"""One pass of the backbone with its pooling, and the vector that a prompt has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sentrep.encoder import last_layer, packed
from sentrep.encoder.pooling import NEEDS_HIDDEN_STATES, POOLINGS, READS_ONE_TOKEN, PoolingInput
from sentrep.types import TokenBatch

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder


def run(encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None) -> tuple[Tensor, Any]:
    """Pooled vectors (B, H), less the template's where the encoder takes it off, and the backbone's output."""
    pooled, output = _pass(encoder, tokens, tokens.attention_mask, word_embeddings, hidden_states=True)
    if encoder.subtract_template:
        pooled = pooled - _template_vectors(encoder, tokens)
    return pooled, output


def pooled_alone(encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None = None) -> Tensor:
    """The pooled vectors of `run`, (B, H), computing nothing that only other outputs need."""
    pooled = _pooled(encoder, tokens, tokens.attention_mask, word_embeddings)
    return pooled - _template_vectors(encoder, tokens) if encoder.subtract_template else pooled


def _pooled(
    encoder: SentenceEncoder, tokens: TokenBatch, visible: Tensor, word_embeddings: Tensor | None = None
) -> Tensor:
    position = READS_ONE_TOKEN.get(encoder.pooling)
    shortens = encoder.pooled_token_only and last_layer.can_leave_out(encoder.backbone)
    # a packed row has no first token of its own for each sentence; a hook in compiled code would break its graph
    if position is None or not shortens or encoder.packed or torch.compiler.is_compiling():
        every = encoder.pooling in NEEDS_HIDDEN_STATES
        return _pass(encoder, tokens, visible, word_embeddings, hidden_states=every)[0]
    with last_layer.only(encoder.backbone, position(tokens.attention_mask, encoder.tokenize.mask_index)):
        output = encoder.backbone(**_source(tokens, word_embeddings), attention_mask=visible)
    vectors: Tensor = output.last_hidden_state[:, 0]
    return vectors


def _source(tokens: TokenBatch, word_embeddings: Tensor | None) -> dict[str, Tensor]:
    return {"input_ids": tokens.input_ids} if word_embeddings is None else {"inputs_embeds": word_embeddings}


def _pass(
    encoder: SentenceEncoder, tokens: TokenBatch, visible: Tensor, word_embeddings: Tensor | None, hidden_states: bool
) -> tuple[Tensor, Any]:
    """A pass in which every token attends to the ``visible`` (B, L) ones only."""
    if encoder.packed and visible is tokens.attention_mask:
        output = packed.run(encoder, tokens, word_embeddings, hidden_states)
    else:
        source = _source(tokens, word_embeddings)
        output = encoder.backbone(**source, attention_mask=visible, output_hidden_states=hidden_states)
    pooled = POOLINGS[encoder.pooling](
        PoolingInput(
            hidden_states=output.hidden_states or (),
            last=output.last_hidden_state,
            attention_mask=tokens.attention_mask,
            mask_index=encoder.tokenize.mask_index,
            pooler_output=getattr(output, "pooler_output", None),
        )
    )
    return pooled, output


def _template_vectors(encoder: SentenceEncoder, tokens: TokenBatch) -> Tensor:
    """(B, H): the prompt's vector with nothing in its slot, its words at the positions that each sentence gives them.

    A text in the slot that no token can see leaves exactly that, whatever kind of positions the backbone has. Only the
    text's length matters, so each length is run once: those that occur or, in training on an accelerator, which would
    have to wait for them to be read, and where shapes are compiled, all that the batch has room for.
    """
    before, after = len(encoder.tokenize.prefix), len(encoder.tokenize.suffix)
    lengths = tokens.attention_mask.sum(1) - before - after
    width = tokens.input_ids.shape[1] - before - after
    all_lengths = encoder.training and (lengths.device.type != "cpu" or torch.compiler.is_compiling())
    run_lengths = torch.arange(width + 1, device=lengths.device) if all_lengths else lengths.unique()
    templates, visible = _templates(encoder, run_lengths, tokens.input_ids.shape[1])
    return _pooled(encoder, templates, visible)[torch.searchsorted(run_lengths, lengths)]


def _templates(encoder: SentenceEncoder, lengths: Tensor, width: int) -> tuple[TokenBatch, Tensor]:
    """The prompt around an invisible text of each length, (K, width), and what is visible of it."""
    ids = encoder.tokenize
    position = torch.arange(width, device=lengths.device)
    start = len(ids.prefix)
    stop = start + lengths[:, None]
    # not waiting for the copy, as torch.tensor(..., device=...) does
    after = torch.tensor(ids.suffix).to(lengths.device, non_blocking=True)
    suffix = after[(position - stop).clamp(0, len(ids.suffix) - 1)]
    # any token but padding, from which some backbones count their positions
    hidden = torch.full_like(suffix, ids.suffix[-1])
    before = torch.tensor(ids.prefix + [0] * (width - start)).to(lengths.device, non_blocking=True)
    prefix = before.expand_as(suffix)
    end = stop + len(ids.suffix)
    rows = torch.where(position < start, prefix, torch.where(position < stop, hidden, suffix))
    rows = torch.where(position < end, rows, ids.pad_token_id)
    real = (position < end).long()
    return TokenBatch(rows, real), real * ((position < start) | (position >= stop)).long()
