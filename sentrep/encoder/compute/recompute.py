"""A pass whose activations are computed again in the backward pass, some rows at a time (GradCache)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sentrep.types import EncoderOutput, Layers, Need, TokenBatch

Run = Callable[[TokenBatch, Tensor | None, Need], EncoderOutput]
"""A pass over any number of rows: tokens (B, L), word embeddings (B, L, W) or None, and the outputs to compute."""


def some_rows_at_once(run: Run, tokens: TokenBatch, words: Tensor | None, need: Need, rows: int) -> EncoderOutput:
    """``run(tokens, words, need)`` in the memory of at most ``rows`` rows.

    The backward pass recomputes the activations of one group of rows at a time, with the same dropout masks, while
    the loss sees all vectors: value and gradient equal the whole batch's. This is GradCache (Gao et al. 2021,
    Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, §3) in a single backward pass, so that
    accumulation, mixed precision and the averaging of gradients over processes do not change. It costs one more
    forward pass.

    Args:
        run: the pass, whose random draws are all torch's.
        tokens: (B, L).
        words: (B, L, W), or None.
        need: the outputs to compute.
        rows: of a group.
    """

    def group(_: Tensor, tokens: TokenBatch, words: Tensor | None) -> EncoderOutput:
        return run(tokens, words, need)

    groups = tokens.split(rows)
    parts = [None] * len(groups) if words is None else words.split(rows)
    # from a tensor among the arguments checkpoint learns whose random state to keep
    outputs: list[EncoderOutput] = [
        checkpoint(group, g.input_ids, g, part, use_reentrant=False) for g, part in zip(groups, parts, strict=True)
    ]
    embedding = torch.cat([output.embedding for output in outputs])
    if need.vectors_only:
        return EncoderOutput(embedding)
    return EncoderOutput(
        embedding,
        token_states=torch.cat([output.token_states for output in outputs]),
        input_embeddings=torch.cat([output.input_embeddings for output in outputs]),
        layers=Layers({k: torch.cat([output.layers[k] for output in outputs]) for k in outputs[0].layers}),
    )
