"""The base class of view makers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import nn

from sentrep.config import Configurable
from sentrep.encoder import EncoderServices, SentenceEncoder
from sentrep.types import EncoderSpec, Need, TextBatch, TokenBatch, Views


class ViewMaker(Configurable, nn.Module, ABC):
    """Makes the views of a batch with one forward pass of the encoder.

    Its own parameters and buffers are trained, saved and resumed with the module.

    Attributes:
        step: number of optimiser steps before this one, which `SentRepModule` sets: the same on every process and after
            a resume.

    Examples:
        >>> from sentrep import ViewMaker, Views
        >>> class OneVector(ViewMaker):  # anchor and positive are the same vector
        ...     def forward(self, encoder, batch, extra, need):
        ...         output = encoder(batch.anchor, need=need)
        ...         return Views(output.embedding, output.embedding, None, output, output)
        >>> views = OneVector()
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Create parameters and buffers here; called once, before the objectives and the optimiser are built."""

    @abstractmethod
    def forward(
        self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch], need: Need = Need()
    ) -> Views:
        """Encode everything that this step needs.

        Args:
            encoder: called once.
            batch: B sentences.
            extra: more inputs for the same pass, from `Objective.extra_inputs`.
            need: the outputs that the objectives read; pass it on: ``encoder(tokens, need=need)``.

        Returns:
            Projected views, and the encoder's raw output for each of them and for each entry of ``extra``.
        """

    def after_step(self, views: Views) -> None:
        """Called once per optimiser step, with the (detached) views of its last forward."""
