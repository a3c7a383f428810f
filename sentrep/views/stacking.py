"""All inputs of a step as one batch for one pass, and its output taken apart again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentrep.encoder import SentenceEncoder
from sentrep.types import EncoderOutput, TokenBatch


def stack(encoder: SentenceEncoder, inputs: Sequence[TokenBatch], extra: Mapping[str, TokenBatch]) -> TokenBatch:
    """One batch of all inputs, the extra ones last."""
    return TokenBatch.concatenate([*inputs, *extra.values()], encoder.tokenize.pad_token_id)


def split_extra(output: EncoderOutput, start: int, extra: Mapping[str, TokenBatch]) -> dict[str, EncoderOutput]:
    """The outputs of the extra inputs, which begin at row ``start``."""
    parts = {}
    for name, tokens in extra.items():
        parts[name] = output[start : start + len(tokens)]
        start += len(tokens)
    return parts
