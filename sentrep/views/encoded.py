"""Views that differ in what the encoder reads or drops."""

from __future__ import annotations

from collections.abc import Mapping

from sentrep.encoder import SentenceEncoder
from sentrep.types import EncoderOutput, TextBatch, TokenBatch, Views
from sentrep.views.base import ViewMaker


class EncodedViews(ViewMaker):
    """The given positive or, without one, the same sentence again under another dropout mask (SimCSE, §3).

    All views of the batch, hard negatives included, are stacked to one batch and encoded in one pass.
    """

    def forward(self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch]) -> Views:
        """See `ViewMaker.forward`."""
        inputs = [batch.anchor, batch.positive if batch.positive is not None else batch.anchor]
        if batch.negative is not None:
            inputs.append(batch.negative)
        stacked = TokenBatch.concatenate([*inputs, *extra.values()], encoder.tokenize.pad_token_id)
        output = encoder(stacked)
        size = len(batch)
        projected = encoder.project(output.embedding[: len(inputs) * size]).split(size)
        return Views(
            anchor=projected[0],
            positive=projected[1],
            negative=projected[2] if batch.negative is not None else None,
            anchor_output=output[:size],
            positive_output=output[size : 2 * size],
            extra=_split(output, len(inputs) * size, extra),
        )


def _split(output: EncoderOutput, start: int, extra: Mapping[str, TokenBatch]) -> dict[str, EncoderOutput]:
    parts = {}
    for name, tokens in extra.items():
        parts[name] = output[start : start + len(tokens)]
        start += len(tokens)
    return parts
