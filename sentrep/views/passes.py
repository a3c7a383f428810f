"""What view makers share: stacking a step's inputs for one pass, taking the output apart, the loss to attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from sentrep import distributed
from sentrep.encoder import SentenceEncoder
from sentrep.functional import info_nce
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


def contrastive_loss(anchor: Tensor, positive: Tensor, negative: Tensor | None, temperature: float) -> Tensor:
    """SimCSE's loss (eq. 1; with hard negatives eq. 5) of this process's (B, D) rows against the global batch."""
    return info_nce(
        anchor,
        distributed.gather(positive),
        temperature=temperature,
        positives=distributed.own_rows(len(anchor), anchor.device),
        negatives=None if negative is None else distributed.gather(negative),
    )
