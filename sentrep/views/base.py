"""What every way of making views has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import nn

from sentrep.config import Configurable
from sentrep.encoder import SentenceEncoder
from sentrep.types import TextBatch, TokenBatch, Views


class ViewMaker(Configurable, nn.Module, ABC):
    """Makes the views of a batch with one forward pass of the encoder."""

    @abstractmethod
    def forward(self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch]) -> Views:
        """Encode everything that this step needs.

        Args:
            encoder: called once.
            batch: B sentences.
            extra: more inputs for the same pass, from `Objective.extra_inputs`.

        Returns:
            Projected views, and the encoder's raw output for each of them and for each entry of ``extra``.
        """

    def makes_identical_views(self, encoder: SentenceEncoder, batch: TextBatch) -> bool:
        """Whether anchor and positive of this batch cannot differ: then there is nothing to learn from them."""
        return batch.positive is None and not encoder.has_dropout
