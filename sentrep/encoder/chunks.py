"""A forward pass in chunks of like length: the same result from fewer padded tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep.types import EncoderOutput, TokenBatch


def in_length_chunks(
    run: Callable[[TokenBatch, Tensor | None], EncoderOutput],
    tokens: TokenBatch,
    word_embeddings: Tensor | None,
    chunks: int,
) -> EncoderOutput:
    """``run(tokens, word_embeddings)`` on length-sorted parts of the batch, each padded to its own longest row only.

    Values and gradients are those of the padded pass: no row looks at another. Meant for CPUs, where padding costs its
    full share of the time; reading the lengths would make an accelerator wait.

    Args:
        run: a pass over any number of rows.
        tokens: (B, L).
        word_embeddings: (B, L, W), or None.
        chunks: number of parts, at most B.

    Returns:
        Output in the order of ``tokens``, padded to L; see `EncoderOutput`.
    """
    lengths = tokens.attention_mask.sum(1)
    order = lengths.argsort(stable=True)
    outputs = []
    for rows in order.tensor_split(chunks):
        longest = int(lengths[rows[-1]])
        part = TokenBatch(tokens.input_ids[rows, :longest], tokens.attention_mask[rows, :longest])
        outputs.append(run(part, None if word_embeddings is None else word_embeddings[rows, :longest]))
    back, width = order.argsort(), tokens.input_ids.shape[1]

    def padded(states: list[Tensor]) -> Tensor:
        return torch.cat([F.pad(s, (0, 0, 0, width - s.shape[1])) for s in states])[back]

    return EncoderOutput(
        embedding=torch.cat([output.embedding for output in outputs])[back],
        token_states=padded([output.token_states for output in outputs]),
        input_embeddings=padded([output.input_embeddings for output in outputs]),
    )
