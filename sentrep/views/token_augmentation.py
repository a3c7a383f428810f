"""What every change to a sentence's token ids has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from sentrep.config import Configurable
from sentrep.encoder import EncoderServices
from sentrep.types import EncoderSpec, TokenBatch


class TokenAugmentation(Configurable, nn.Module, ABC):
    """A small change to the token ids of sentences that makes a view of them.

    Random kinds draw like a `sentrep.Perturbation`: they do not change the encoder's dropout, and repeat after a
    resume and in a second closure call. The batch's `sentrep.TextBatch` does not change; the changed ids are in
    `sentrep.Views.read`.

    Args:
        strength: size of the change; 0 changes nothing.

    Attributes:
        frame: number of special tokens and prompt's words before and after a sentence's own tokens, which stay.
        longest: maximum number of tokens of a sentence; None for no limit.
        pad_token_id: of padding.

    Examples:
        >>> from dataclasses import replace
        >>> import sentrep
        >>> class FirstWords(sentrep.TokenAugmentation):
        ...     def forward(self, tokens):
        ...         ids, mask = tokens.input_ids[:, :8], tokens.attention_mask[:, :8]
        ...         return replace(tokens, input_ids=ids, attention_mask=mask)
        >>> FirstWords().strength
        1.0
    """

    frame: tuple[int, int] = (0, 0)
    longest: int | None = None
    pad_token_id: int = 0

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    @property
    def is_identity(self) -> bool:
        """Whether it leaves every sentence as it is."""
        return self.strength == 0

    def build(self, spec: EncoderSpec, services: EncoderServices) -> None:
        """Take note of the encoder, and create tensors; called once, before training."""
        self.frame, self.longest, self.pad_token_id = spec.frame, services.longest, spec.pad_token_id

    @abstractmethod
    def forward(self, tokens: TokenBatch) -> TokenBatch:
        """The changed sentences.

        Args:
            tokens: (B, L), right-padded, in the encoder's own prompt; not changed in place.

        Returns:
            (B, L'), right-padded. L' must not depend on values on the device, because a step would wait for them.
            `TokenBatch.lengths` is correct or None (then an accelerator computes the padding of these sentences).
        """
