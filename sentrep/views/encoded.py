"""Views that differ in what the encoder reads or drops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from sentrep import checks
from sentrep.config import moved
from sentrep.encoder import SentenceEncoder
from sentrep.types import TextBatch, TokenBatch, Views
from sentrep.views.base import ViewMaker
from sentrep.views.perturbation import Perturbation, check_place, contrastive_loss


class EncodedViews(ViewMaker):
    """The given positive or, without one, the same sentence again under another dropout mask (SimCSE, §3).

    All views of the batch, hard negatives included, are stacked to one batch and encoded in one pass. Augmentations
    change the word embeddings that this pass reads; only `sentrep.views.FGSM` needs another pass.

    Args:
        augmentations: applied one after the other to the word embeddings.
        perturbs: whose word embeddings: those of the positives, or of anchors and positives.

    Raises:
        InputError: for a perturbation that does not apply to the input.
    """

    @moved({"on": "perturbs"})
    def __init__(
        self, augmentations: list[Perturbation] | None = None, perturbs: Literal["positive", "both"] = "positive"
    ) -> None:
        super().__init__()
        checks.one_of(self, ("positive", "both"), perturbs=perturbs)
        checks.each(self, Perturbation, augmentations=augmentations or [])
        for augmentation in augmentations or []:
            check_place(augmentation, "input")
        self.augmentations = nn.ModuleList(augmentations or [])
        self.perturbs = perturbs

    def forward(self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch]) -> Views:
        """See `ViewMaker.forward`."""
        inputs = [batch.anchor, batch.positive if batch.positive is not None else batch.anchor]
        if batch.negative is not None:
            inputs.append(batch.negative)
        tokens = TokenBatch.concatenate([*inputs, *extra.values()], encoder.tokenize.pad_token_id)
        size = len(batch)
        output = encoder(tokens, self._augmented_words(encoder, tokens, size, len(inputs)))
        projected = encoder.project(output.embedding[: len(inputs) * size]).split(size)
        return Views(
            anchor=projected[0],
            positive=projected[1],
            negative=projected[2] if batch.negative is not None else None,
            anchor_output=output[:size],
            positive_output=output[size : 2 * size],
            extra=output.split(len(inputs) * size, extra),
        )

    def makes_identical_views(self, encoder: SentenceEncoder, batch: TextBatch) -> bool:
        """See `ViewMaker.makes_identical_views`."""
        return super().makes_identical_views(encoder, batch) and all(a.is_identity for a in self._augmentations())

    def _augmentations(self) -> Iterable[Perturbation]:
        return self.augmentations  # type: ignore[return-value]

    def _augmented_words(self, encoder: SentenceEncoder, tokens: TokenBatch, size: int, views: int) -> Tensor | None:
        """Word embeddings of the stacked batch, ``views`` times ``size`` rows and the extra ones; None for its own."""
        active = [augmentation for augmentation in self._augmentations() if not augmentation.is_identity]
        if not active:
            return None
        words = encoder.look_up(tokens)
        rows = slice(size if self.perturbs == "positive" else 0, 2 * size)

        def replaced(x: Tensor) -> Tensor:
            return torch.cat([words[: rows.start], x, words[rows.stop :]])

        def loss_fn(x: Tensor, temperature: float) -> Tensor:
            embedding = encoder(tokens, replaced(x)).embedding
            anchor, positive, *negative = encoder.project(embedding[: views * size]).split(size)
            return contrastive_loss(anchor, positive, negative[0] if negative else None, temperature)

        real = tokens.attention_mask.bool()
        own = tokens.own((len(encoder.tokenize.prefix), len(encoder.tokenize.suffix)))
        x = words[rows]
        for augmentation in active:
            x = augmentation(x, (own if augmentation.spares_frame else real)[rows], loss_fn)
        return replaced(x)
