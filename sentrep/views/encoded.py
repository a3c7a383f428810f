"""Views that differ in the encoder's input or its dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sentrep.encoder import EncoderServices, SentenceEncoder
from sentrep.random import plugin_draws
from sentrep.types import EncoderSpec, Need, TextBatch, TokenBatch, Views
from sentrep.views.base import ViewMaker
from sentrep.views.perturbation import Perturbation, check_place, contrastive_loss
from sentrep.views.token_augmentation import TokenAugmentation


class EncodedViews(ViewMaker):
    """The given positive or, without one, the same sentence again under another dropout mask (SimCSE, §3).

    All views of the batch, hard negatives included, are stacked to one batch and encoded in one pass. Token
    augmentations change the ids that it reads, perturbations the word embeddings; only `sentrep.views.FGSM` needs
    another pass. In each list token augmentations come first, then perturbations, in the order that is given.

    Args:
        augmentations: of the positives, or of anchors and positives.
        perturbs: which of the two; token augmentations draw for each view by itself.
        anchor_augmentations: of the anchors alone, after those.
        positive_prompt: template of the positives and hard negatives, such as ``This sentence : "[X]" means [MASK].``.
            Anchors, and the model after training, use the encoder's template (PromptBERT, §4). Each template has
            its own mask and, with ``subtract``, its own subtracted vector.

    Raises:
        InputError: for a perturbation that does not apply to the input, and for a prompt where the encoder has none.

    Examples:
        >>> from sentrep.views import EncodedViews, WordRepetition
        >>> views = EncodedViews([WordRepetition(0.32)])  # the argument ``views`` of SentRepModule
    """

    def __init__(
        self,
        augmentations: list[Perturbation | TokenAugmentation] | None = None,
        perturbs: Literal["positive", "both"] = "positive",
        anchor_augmentations: list[Perturbation | TokenAugmentation] | None = None,
        positive_prompt: str | None = None,
    ) -> None:
        super().__init__()
        self.augmentations = nn.ModuleList(augmentations or [])
        self.anchor_augmentations = nn.ModuleList(anchor_augmentations or [])
        self.perturbs = perturbs
        self.positive_prompt = positive_prompt
        self._enclose: Callable[[TokenBatch], TokenBatch] | None = None
        for perturbation in self._active(Perturbation):
            check_place(perturbation, "input")

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """See `ViewMaker.build`."""
        for augmentation in self._active(TokenAugmentation):
            augmentation.build(spec, services)
        if self.positive_prompt is not None:
            self._enclose = services.add_prompt(self.positive_prompt)

    def forward(
        self, encoder: SentenceEncoder, batch: TextBatch, extra: Mapping[str, TokenBatch], need: Need = Need()
    ) -> Views:
        """See `ViewMaker.forward`."""
        read = self._read(batch)
        inputs = [tokens for tokens in (read.anchor, read.positive, read.negative) if tokens is not None]
        tokens = TokenBatch.concatenate([*inputs, *extra.values()], encoder.tokenize.pad_token_id)
        size = len(batch)
        output = encoder(tokens, self._augmented_words(encoder, tokens, need, size, len(inputs)), need)
        projected = encoder.project(output.embedding[: len(inputs) * size]).split(size)
        return Views(
            anchor=projected[0],
            positive=projected[1],
            negative=projected[2] if batch.negative is not None else None,
            anchor_output=output[:size],
            positive_output=output[size : 2 * size],
            extra=output.split(len(inputs) * size, extra),
            read=read,
        )

    def _active(self, kind: Any = object, augmentations: Iterable[Any] | None = None) -> list[Any]:
        """The augmentations of a kind that change anything, of one list or of both."""
        chosen = (*self.augmentations, *self.anchor_augmentations) if augmentations is None else augmentations
        return [a for a in chosen if isinstance(a, kind) and not a.is_identity]

    def _read(self, batch: TextBatch) -> TextBatch:
        """The tokens of the views."""
        anchor, positive = batch.anchor, batch.anchor if batch.positive is None else batch.positive
        if self._active(TokenAugmentation):
            with plugin_draws("views/tokens", device=anchor.input_ids.device):
                for augmentation in self._active(TokenAugmentation, self.augmentations):
                    anchor = augmentation(anchor) if self.perturbs == "both" else anchor
                    positive = augmentation(positive)
                for augmentation in self._active(TokenAugmentation, self.anchor_augmentations):
                    anchor = augmentation(anchor)
        enclose = self._enclose or (lambda tokens: tokens)
        negative = None if batch.negative is None else enclose(batch.negative)
        return TextBatch(anchor, enclose(positive), negative, batch.rows)

    def _augmented_words(
        self, encoder: SentenceEncoder, tokens: TokenBatch, need: Need, size: int, views: int
    ) -> Tensor | None:
        """Word embeddings of the stacked batch, ``views`` times ``size`` rows and the extra ones; None for its own."""
        if not self._active(Perturbation):
            return None
        words, real, own = encoder.look_up(tokens), tokens.attention_mask.bool(), encoder.own(tokens)

        def perturbed(words: Tensor, augmentations: nn.ModuleList, rows: slice) -> Tensor:
            def replaced(x: Tensor) -> Tensor:
                return torch.cat([words[: rows.start], x, words[rows.stop :]])

            def loss_fn(x: Tensor, temperature: float) -> Tensor:
                embedding = encoder(tokens, replaced(x), need).embedding
                anchor, positive, *negative = encoder.project(embedding[: views * size]).split(size)
                return contrastive_loss(anchor, positive, negative[0] if negative else None, temperature)

            x = words[rows]
            for augmentation in (active := self._active(Perturbation, augmentations)):
                x = augmentation(x, (own if augmentation.spares_frame else real)[rows], loss_fn)
            return replaced(x) if active else words

        with plugin_draws("views/words", device=words.device):
            words = perturbed(words, self.augmentations, slice(size if self.perturbs == "positive" else 0, 2 * size))
            return perturbed(words, self.anchor_augmentations, slice(0, size))
