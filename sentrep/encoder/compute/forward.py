"""One pass of the backbone with its pooling, and the vector that a prompt has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep.encoder.compute import packed
from sentrep.encoder.compute.layouts import Layout, LengthGroups, Packing
from sentrep.encoder.compute.pooling import NEEDS_HIDDEN_STATES, POOLINGS, READS_ONE_TOKEN, PoolingInput, token_states
from sentrep.types import TokenBatch

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder


def run(
    encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None, groups: int = 1
) -> tuple[Tensor, Any]:
    """Pooled vectors (B, H), less the template's where the encoder takes it off, and the backbone's output.

    With ``groups`` above 1 in `LengthGroups`, which the encoder must be able to (`SentenceEncoder.joins_groups`).
    """
    layout = _layout(encoder, tokens, groups)
    pooled, output = _pass(encoder, tokens, tokens.attention_mask, word_embeddings, layout, hidden_states=True)
    if encoder.subtract_template:
        pooled = pooled - _template_vectors(encoder, tokens)
    return pooled, output


def pooled_alone(
    encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None = None, groups: int = 1
) -> Tensor:
    """The pooled vectors of `run`, (B, H), computing nothing that only other outputs need."""
    pooled = _pooled(encoder, tokens, tokens.attention_mask, word_embeddings, _layout(encoder, tokens, groups))
    return pooled - _template_vectors(encoder, tokens) if encoder.subtract_template else pooled


def _layout(encoder: SentenceEncoder, tokens: TokenBatch, groups: int) -> Layout | None:
    """None for the padded batch."""
    if encoder.packed:
        return Packing.of(tokens.attention_mask, tokens.real_tokens)
    return LengthGroups.of(tokens.attention_mask, groups) if groups > 1 else None


def _pooled(
    encoder: SentenceEncoder,
    tokens: TokenBatch,
    visible: Tensor,
    word_embeddings: Tensor | None = None,
    layout: Layout | None = None,
) -> Tensor:
    position_of = READS_ONE_TOKEN.get(encoder.pooling)
    last = encoder.last_layer if encoder.pooled_token_only else None
    if position_of is None or last is None or last.is_recomputed:
        every = encoder.pooling in NEEDS_HIDDEN_STATES
        return _pass(encoder, tokens, visible, word_embeddings, layout, hidden_states=every)[0]
    position = position_of(tokens.attention_mask, encoder.tokenize.mask_index)
    arguments = _arguments(encoder, tokens, visible, word_embeddings, layout)

    def read(states: Tensor) -> Tensor:
        if layout is None:
            return token_states(states, position).unsqueeze(1)
        return states[:, layout.starts if position is None else layout.starts + position]

    with last.only(read):
        vectors: Tensor = encoder.backbone(**arguments).last_hidden_state
    return vectors.flatten(0, 1)


def _arguments(
    encoder: SentenceEncoder, tokens: TokenBatch, visible: Tensor, word_embeddings: Tensor | None, layout: Layout | None
) -> dict[str, Any]:
    """What the backbone is called with."""
    if layout is not None:
        return packed.inputs(encoder, tokens, word_embeddings, layout)
    source = {"input_ids": tokens.input_ids} if word_embeddings is None else {"inputs_embeds": word_embeddings}
    return {**source, "attention_mask": visible}


def _pass(
    encoder: SentenceEncoder,
    tokens: TokenBatch,
    visible: Tensor,
    word_embeddings: Tensor | None,
    layout: Layout | None,
    hidden_states: bool,
) -> tuple[Tensor, Any]:
    """A pass in which every token attends to the ``visible`` (B, L) ones only; a layout sees all real ones."""
    arguments = _arguments(encoder, tokens, visible, word_embeddings, layout)
    output = encoder.backbone(**arguments, output_hidden_states=hidden_states)
    if layout is not None:
        output = packed.unpack(output, layout)
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
    all_lengths = torch.compiler.is_compiling() or (encoder.training and lengths.device.type != "cpu")
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
    before = torch.tensor(ids.prefix).to(lengths.device, non_blocking=True)
    prefix = F.pad(before, (0, width - start)).expand_as(suffix)
    end = stop + len(ids.suffix)
    rows = torch.where(position < start, prefix, torch.where(position < stop, hidden, suffix))
    rows = torch.where(position < end, rows, ids.pad_token_id)
    real = (position < end).long()
    return TokenBatch(rows, real), real * ((position < start) | (position >= stop)).long()
