"""A forward pass in groups of rows: less padding on a CPU, and large batches in little memory (GradCache)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sentrep.encoder.compute.layouts import by_length
from sentrep.types import DroppedStates, EncoderOutput, TokenBatch

Run = Callable[[TokenBatch, Tensor | None], EncoderOutput]
"""A pass over any number of rows: tokens (B, L), and word embeddings (B, L, W) or None."""


def in_length_chunks(run: Run, tokens: TokenBatch, word_embeddings: Tensor | None, chunks: int) -> EncoderOutput:
    """``run(tokens, word_embeddings)`` on length-sorted parts of the batch, each padded to its own longest row only.

    Values and gradients are those of the padded pass: no row looks at another. Meant for CPUs, where padding costs its
    full share of the time; reading the lengths makes an accelerator wait.

    Args:
        run: the pass.
        tokens: (B, L).
        word_embeddings: (B, L, W), or None.
        chunks: number of parts, at most B.

    Returns:
        Output in the order of ``tokens``, padded to L; see `EncoderOutput`.
    """
    groups = by_length(tokens.attention_mask, chunks)  # the longest first: their memory fits all others
    outputs = []
    for rows, width, _ in groups:
        part = TokenBatch(tokens.input_ids[rows, :width], tokens.attention_mask[rows, :width])
        outputs.append(run(part, None if word_embeddings is None else word_embeddings[rows, :width]))
    back, width = torch.cat([rows for rows, *_ in groups]).argsort(), tokens.input_ids.shape[1]

    embedding = torch.cat([output.embedding for output in outputs])[back]
    if isinstance(outputs[0].token_states, DroppedStates):
        return vectors_only(embedding)

    def padded(states: list[Tensor]) -> Tensor:
        return torch.cat([F.pad(s, (0, 0, 0, width - s.shape[1])) for s in states])[back]

    return EncoderOutput(
        embedding,
        token_states=padded([output.token_states for output in outputs]),
        input_embeddings=padded([output.input_embeddings for output in outputs]),
    )


def recomputed(run: Run) -> Run:
    """``run`` without its activations: the backward pass computes them again, with the same dropout masks.

    A batch that runs in groups of rows, each of them recomputed, needs the activations of one group at a time, while
    the loss sees all vectors: value and gradient are those of the whole batch. This is GradCache (Gao et al. 2021,
    Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, §3) in a single backward pass, so that
    accumulation, mixed precision and the averaging of gradients over processes stay what they are. It costs one more
    forward pass.

    Args:
        run: the pass, whose random draws are all torch's.
    """

    def forward(input_ids: Tensor, attention_mask: Tensor, word_embeddings: Tensor | None) -> EncoderOutput:
        return run(TokenBatch(input_ids, attention_mask), word_embeddings)

    def run_recomputed(tokens: TokenBatch, word_embeddings: Tensor | None) -> EncoderOutput:
        # tensors as arguments of their own: from them checkpoint learns whose random state to keep
        arguments = (tokens.input_ids, tokens.attention_mask, word_embeddings)
        output: EncoderOutput = checkpoint(forward, *arguments, use_reentrant=False)
        return output

    return run_recomputed


def vectors_only(embedding: Tensor) -> EncoderOutput:
    """(B, H) vectors without their tokens' states."""
    dropped: Any = DroppedStates()
    # a copy: the vector of CLS is a view, which would hold the states of all tokens
    return EncoderOutput(embedding.clone(), token_states=dropped, input_embeddings=dropped)
