"""PaSeR as one would write it without thinking: one sentence, one start of a phrase, one token at a time."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def phrases(sentence: list[int], batch: list[list[int]], share: float) -> tuple[list[int], int]:
    """First places of the phrases among a sentence's own tokens, several where they are as rare, and their length."""
    length = min(max(round(share * len(sentence)), 1), len(sentence))

    def rarity(start: int) -> float:
        words = sentence[start : start + length]
        return sum(math.log(len(batch) / sum(word in other for other in batch)) for word in words)

    found = [rarity(start) for start in range(len(sentence) - length + 1)]
    return [start for start, value in enumerate(found) if value > max(found) - 1e-5], length


def loss(
    objective: Any, vectors: Tensor, masked: Tensor, embedded: Tensor, sentences: list[list[int]], firsts: list[int]
) -> Tensor:
    """Mean of −log p over all tokens of all phrases.

    Args:
        objective: whose parameters are used.
        vectors: (B, D) of the sentences.
        masked: (B, H) of the sentences without their phrases.
        embedded: (B, L, E) output of the embedding layer for the sentences.
        sentences: own tokens of each.
        firsts: where the phrase of each begins among them; one token stands before them.
    """
    terms = []
    for row, sentence in enumerate(sentences):
        first, length = firsts[row], phrases(sentence, sentences, objective.share)[1]
        z, other = vectors[row], objective.masked.weight @ masked[row] + objective.masked.bias
        memory = torch.stack([objective.product * z * other, objective.difference * (z - other), z, other])
        for place in range(length):
            read = [objective.start]
            read += [embedded[row, 1 + first + earlier] for earlier in range(place)]
            states = torch.stack(read)[None]
            hidden = torch.ones(len(read), len(read), dtype=torch.bool).triu(1)
            state = objective.decoder(states, objective.memory(memory)[None], tgt_mask=hidden)[0, -1]
            logits = objective.lm_head(state[None])[0]
            terms.append(-logits.log_softmax(0)[sentence[first + place]])
    return torch.stack(terms).mean()
