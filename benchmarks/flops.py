"""Model FLOPs: the arithmetic that a step needs, whoever does it, and from it the model FLOP utilisation.

Counted are the matrix products of the transformer's layers on *real* tokens, each multiply-add as two operations. For a
sentence of n tokens, layers of width H and hidden layers of width F:

    forward(n) = layers · (2n (4H² + 2HF) + 4n²H)        projections and MLP; attention scores and their use
    training   = 3 · forward: the backward pass takes two products for each of the forward pass

Padding, dropout, norms, softmax, embeddings, heads, the loss and the optimiser do not count, although they cost time:
utilisation is what is left of the time for the products above. They count in full for every variant, also where one
finds a way around some of them (sentrep's last layer may end for the pooled token alone).

    MFU = model FLOPs per second ÷ FLOP/s of a large matrix product in the same precision, measured in the same run

GS and DCLR do SimCSE's work in two views; DCLR adds one forward pass of its frozen encoder; DenoSent adds its decoder
(the formula above with its own layers, and 2n (H² + HV) for the masked-LM head over V words).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """What the arithmetic depends on."""

    layers: int
    hidden: int
    intermediate: int
    words: int

    @classmethod
    def of(cls, config: Any) -> Shape:
        """From the configuration of a transformers model with BERT's names."""
        return cls(config.num_hidden_layers, config.hidden_size, config.intermediate_size, config.vocab_size)


DECODER_LAYERS, DECODER_WIDTH = 16, 2048
"""Of `sentrep.objectives.Denoising` as the recipes have it."""


def forward(lengths: Sequence[int], layers: int, hidden: int, intermediate: int) -> float:
    """FLOPs of one pass over sentences of these lengths, special tokens included.

    Example:
        >>> forward([2], layers=1, hidden=3, intermediate=5)  # 4·(36 + 30) + 16·3
        312
    """
    tokens, squares = sum(lengths), sum(n * n for n in lengths)
    return layers * (2 * tokens * (4 * hidden**2 + 2 * hidden * intermediate) + 4 * squares * hidden)


def training(lengths: Sequence[int], shape: Shape, objective: str) -> float:
    """FLOPs of a training step over these sentences, forward and backward."""
    one_pass = forward(lengths, shape.layers, shape.hidden, shape.intermediate)
    total = 3 * 2 * one_pass
    if objective == "dclr":
        total += one_pass
    if objective == "denosent":
        head = 2 * sum(lengths) * (shape.hidden**2 + shape.hidden * shape.words)
        total += 3 * (forward(lengths, DECODER_LAYERS, shape.hidden, DECODER_WIDTH) + head)
    return total
