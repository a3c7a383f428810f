"""The services of the trained encoder for plug-ins, and the record of every part that was given out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from sentrep.encoder.copies import CutCopy, EncoderCopy, Frozen, frozen
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.frozen_encoder import FrozenEncoder
from sentrep.encoder.loading.lm_head import LanguageModelHead
from sentrep.types import TokenBatch


class EncoderServices:
    """Services of the encoder for a plug-in that is being built (`Objective.build`).

    `SentRepModule` makes one object for all plug-ins. What the services give out is in its record, by which the module
    finds the copies that follow the encoder, the frozen models to load, and the masked-LM head to save.

    Args:
        encoder: the encoder that is trained.
        seed: of the run, for new weights.

    Attributes:
        copies: every copy of the encoder that was given out.
        frozen_encoders: every frozen model that was given out.
        heads: the masked-LM heads that were given out, the trained head first.

    Examples:
        >>> from sentrep import SentenceEncoder
        >>> small = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> services = EncoderServices(SentenceEncoder(small, tokenizer="toy"), seed=0)
        >>> services.copy() is services.copy(), len(services.copies)
        (True, 1)
    """

    def __init__(self, encoder: SentenceEncoder, seed: int) -> None:
        self._encoder = encoder
        self._seed = seed
        self._dim: int | None = None
        self._shared: dict[float | None, EncoderCopy] = {}
        self.copies: list[EncoderCopy] = []
        self.frozen_encoders: list[FrozenEncoder] = []
        self.heads: list[LanguageModelHead] = []

    def lm_head(self, trainable: bool = True) -> LanguageModelHead | Frozen:
        """The backbone's masked-LM head on the encoder's word embeddings: (..., H) → (..., V).

        A later run finds the head in the checkpoint, under any attribute name of an objective.

        Args:
            trainable: True: the head that is trained, the same module in every call. False: a frozen copy, with words
                of its own.

        Raises:
            InputError: the backbone has no masked-LM head that can be used alone.
        """
        if not self.heads:
            self.heads.append(self._encoder.language_model_head(self._seed))
        if trainable:
            return self.heads[0]
        self.heads.append(copy.deepcopy(self.heads[0]))
        return frozen(self.heads[-1])

    def copy(self, trainable: bool = False, momentum: float | None = None) -> EncoderCopy | CutCopy:
        """A second encoder with the weights that training begins with (`sentrep.encoder.EncoderCopy`).

        Args:
            trainable: True: a new copy, which is trained. False: a frozen copy, shared by all calls of one momentum.
            momentum: by which a frozen copy follows the encoder; None: it never changes.

        Raises:
            InputError: for a momentum out of range, or a momentum of a copy that is trained.
        """
        if trainable or momentum not in self._shared:
            made = EncoderCopy(self._encoder, trainable, momentum)
            self.copies.append(made)
            if not trainable:
                self._shared[momentum] = made
        else:
            made = self._shared[momentum]
        return made if self._dim is None else CutCopy(made, self._dim)

    def frozen(self, model: str) -> FrozenEncoder:
        """Another model that is never trained, such as a teacher; `SentRepModule` loads it when training starts.

        Args:
            model: a folder, a checkpoint or a Hugging Face model id.
        """
        made = FrozenEncoder(model, self._encoder.tokenize.vocabulary, self.rows_at_once)
        self.frozen_encoders.append(made)
        return made

    def add_prompt(self, template: str) -> Callable[[TokenBatch], TokenBatch]:
        """Add another template for training (`TokenBatch.prompt`).

        Returns:
            The function that moves sentences from the encoder's own prompt into this template.

        Raises:
            InputError: for an encoder without a prompt of its own, a template without its slots, or a template that
                leaves no room for a sentence.
        """
        return self._encoder.add_prompt(template)

    def project(self, pooled: Tensor) -> Tensor:
        """The projection head on pooled vectors, (B, H) → (B, D); `Objective.projects_extra` is the short way."""
        return self._encoder.project(pooled)[:, : self._dim]

    def word_starts(self) -> Tensor:
        """(V,) bool, whether a token begins a word."""
        return self._encoder.tokenize.word_starts(self._encoder.vocab_size)

    def backbone_parameters(self) -> Iterable[nn.Parameter]:
        """The backbone's trained parameters, for a penalty on them. Call it in every step, as they may change."""
        return self._encoder.backbone.parameters()

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """The encoder's `SentenceModule`s after the pooling.

        An objective may call their further methods on the tensors of `EncoderOutput`. It must keep them in a tuple, so
        that they are not saved a second time.
        """
        return tuple(self._encoder.sentence_modules)

    @property
    def longest(self) -> int:
        """Tokens of the longest training sequence, which no augmentation may exceed."""
        return self._encoder.longest

    @property
    def rows_at_once(self) -> int | None:
        """Rows whose activations may be held at a time; None: all of the batch."""
        return self._encoder.compute.rows_at_once

    def first_dimensions(self, dim: int) -> EncoderServices:
        """The same services and record, with projected vectors that have the first ``dim`` dimensions only."""
        cut = copy.copy(self)
        cut._dim = dim
        return cut

    def head_to_keep(self, module: nn.Module) -> str | None:
        """The name within ``module`` of the masked-LM head to save: the trained head or a frozen one; None without."""
        names: dict[Any, str] = {part: name for name, part in module.named_modules()}
        return next((names[head] for head in self.heads if head in names), None)
