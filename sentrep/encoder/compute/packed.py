"""A batch as a single row of tokens for the backbone (`sentrep.encoder.compute.layouts`), with little padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from sentrep.encoder.compute.layouts import Layout, Packing
from sentrep.encoder.loading.sources import first_position
from sentrep.errors import InputError
from sentrep.types import TokenBatch

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder


def inputs(
    encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None, layout: Layout
) -> dict[str, Any]:
    """What the backbone is called with; its states then have the shape (1, T, H)."""
    real = layout.tokens
    source = {"input_ids": real.pack(tokens.input_ids)[None]}
    if word_embeddings is not None:
        source = {"inputs_embeds": real.pack(word_embeddings)[None]}
    position = real.index % tokens.input_ids.shape[1] + first_position(encoder.backbone)
    return {**source, "position_ids": position[None], "packing": layout}


def unpack(output: Any, layout: Layout) -> Any:
    """The backbone's output as for the padded batch, zero where the layout has no token."""
    output.last_hidden_state = layout.tokens.unpack(output.last_hidden_state[0])
    if output.hidden_states is not None:
        output.hidden_states = tuple(layout.tokens.unpack(states[0]) for states in output.hidden_states)
    return output


def one_row(encoder: SentenceEncoder, own_attention: bool, packed: bool) -> tuple[bool, bool]:
    """Whether a batch runs packed, and whether it can run in `LengthGroups`; a warning where ``packed`` cannot be had.

    Args:
        encoder: ready to run.
        own_attention: whether the backbone uses `sentrep.encoder.compute.attention`.
        packed: whether that was asked for.

    Raises:
        InputError: for what packing does not go with.
    """
    if packed and encoder.pooling == "pooler":
        raise InputError("packed does not go with pooling 'pooler'; leave one of them out")
    possible = own_attention and encoder.pooling != "pooler" and _is_exact(encoder)
    if packed and not possible:
        rank_zero_warn(f"{encoder.backbone.config.model_type} cannot be packed: its padding is computed")
    return packed and possible, possible and not packed


def _is_exact(encoder: SentenceEncoder) -> bool:
    """Tried on three sentences: many families ignore arguments that they do not know."""
    ids = 1 + 37 * torch.arange(21).view(3, 7) % (encoder.vocab_size - 2)
    ids = torch.where(ids == encoder.tokenize.pad_token_id, ids + 1, ids)  # from which some count positions
    lengths = torch.tensor([[4], [7], [5]])
    mask = (torch.arange(7) < lengths).long()
    layout = Packing.of(mask, None)
    was_training = encoder.backbone.training
    encoder.backbone.eval()
    try:
        with torch.no_grad():
            padded = encoder.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
            row = encoder.backbone(**inputs(encoder, TokenBatch(ids, mask), None, layout))
            packed = unpack(row, layout).last_hidden_state
        return torch.allclose(packed * mask[..., None], padded * mask[..., None], atol=1e-4, rtol=1e-4)
    except (TypeError, ValueError, RuntimeError, IndexError):  # NotImplementedError is a RuntimeError
        return False
    finally:
        encoder.backbone.train(was_training)
