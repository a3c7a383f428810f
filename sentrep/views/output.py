"""Views whose positive is a perturbed copy of the anchor's vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.random import plugin_draws
from sentrep.types import Need, TextBatch, TokenBatch, Views
from sentrep.views.base import ViewMaker
from sentrep.views.perturbation import Perturbation, check_place, contrastive_loss


class OutputPerturbedViews(ViewMaker):
    """The positive is a perturbed copy of the anchor's vector (thesis, 4.1.1 and table 2).

    The thesis perturbs "the output of the anchor", directly before the cosine ("there are no layers after the
    encoder output"), so the perturbation comes after the projection head. The gradient flows through both copies.

    Expect bad encoders: the table has 41 to 50, and 75 for SimCSE.

    Args:
        perturbation: of the copy.
        negatives: the vectors of other sentences: their ``copies``, as in the thesis's text, or their ``second_view``
            under another dropout mask (`Views.second`), as in its code, for twice the work.
            `sentrep.views.FGSM` attacks the contrast with the copies in both cases.

    Raises:
        InputError: for a perturbation of tokens, and for a corpus with positives.

    Examples:
        >>> from sentrep.views import GaussianNoise, OutputPerturbedViews
        >>> views = OutputPerturbedViews(GaussianNoise(0.01))  # the argument ``views`` of SentRepModule
    """

    def __init__(self, perturbation: Perturbation, negatives: Literal["copies", "second_view"] = "copies") -> None:
        super().__init__()
        check_place(perturbation, "output")
        self.perturbation = perturbation
        self.negatives = negatives

    def forward(
        self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch], need: Need = Need()
    ) -> Views:
        """See `ViewMaker.forward`."""
        if batch.positive is not None:
            raise InputError(
                "OutputPerturbedViews makes positives from the anchors, but the corpus has its own: "
                "name one column in data.columns, or use EncodedViews"
            )
        size = len(batch)
        inputs = [batch.anchor] * (2 if self.negatives == "second_view" else 1)
        tokens = TokenBatch.concatenate([*inputs, *extra.values()], encoder.tokenize.pad_token_id)
        output = encoder(tokens, need=need)
        anchor, *second = encoder.project(output.embedding[: len(inputs) * size]).split(size)

        def loss_fn(x: Tensor, temperature: float) -> Tensor:
            return contrastive_loss(anchor.detach(), x, None, temperature)

        mask = torch.ones(size, dtype=torch.bool, device=anchor.device)
        with plugin_draws("views/vectors", device=anchor.device):
            positive = self.perturbation(anchor, mask, loss_fn)
        return Views(
            anchor=anchor,
            positive=positive,
            negative=None,
            anchor_output=output[:size],
            positive_output=output[:size],
            extra=output.split(len(inputs) * size, extra),
            second=second[0] if second else None,
        )
