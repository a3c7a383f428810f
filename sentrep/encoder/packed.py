"""A pass of the backbone over real tokens alone: no layer computes padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from sentrep.encoder.attention import Packing
from sentrep.encoder.sources import first_position
from sentrep.errors import InputError
from sentrep.types import TokenBatch

if TYPE_CHECKING:
    from sentrep.encoder.encoder import SentenceEncoder


def run(encoder: SentenceEncoder, tokens: TokenBatch, word_embeddings: Tensor | None, hidden_states: bool) -> Any:
    """The backbone's output as for the padded batch, zero on padding."""
    packing = Packing.of(tokens.attention_mask, tokens.real_tokens)
    real = packing.tokens
    source = {"input_ids": real.pack(tokens.input_ids)[None]}
    if word_embeddings is not None:
        source = {"inputs_embeds": real.pack(word_embeddings)[None]}
    position = real.index % tokens.input_ids.shape[1] + first_position(encoder.backbone)
    output = encoder.backbone(
        **source, position_ids=position[None], packing=packing, output_hidden_states=hidden_states
    )
    output.last_hidden_state = real.unpack(output.last_hidden_state[0])
    if hidden_states:
        output.hidden_states = tuple(real.unpack(states[0]) for states in output.hidden_states)
    return output


def can_pack(encoder: SentenceEncoder, own_attention: bool) -> bool:
    """Whether `run` gives the padded pass's result; a warning where it does not, so that padding is computed.

    Args:
        encoder: ready to run.
        own_attention: whether the backbone uses `sentrep.encoder.attention`.

    Raises:
        InputError: for what packing does not go with.
    """
    if encoder.pooling == "pooler":
        raise InputError("packed does not go with pooling 'pooler'; leave one of them out")
    exact = own_attention and _is_exact(encoder)
    if not exact:
        rank_zero_warn(f"{encoder.backbone.config.model_type} cannot be packed: its padding is computed")
    return exact


def _is_exact(encoder: SentenceEncoder) -> bool:
    """Tried on three sentences: many families ignore arguments that they do not know."""
    ids = 1 + 37 * torch.arange(21).view(3, 7) % (encoder.vocab_size - 2)
    ids = torch.where(ids == encoder.tokenize.pad_token_id, ids + 1, ids)  # from which some count positions
    lengths = torch.tensor([[4], [7], [5]])
    mask = (torch.arange(7) < lengths).long()
    was_training = encoder.backbone.training
    encoder.backbone.eval()
    try:
        with torch.no_grad():
            padded = encoder.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
            packed = run(encoder, TokenBatch(ids, mask), None, False).last_hidden_state
    except (TypeError, ValueError, RuntimeError, IndexError):  # NotImplementedError is a RuntimeError
        return False
    finally:
        encoder.backbone.train(was_training)
    return torch.allclose(packed * mask[..., None], padded * mask[..., None], atol=1e-4, rtol=1e-4)
