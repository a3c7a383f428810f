"""What folders, model cards, fingerprints and `encode` ask of an encoder, so that they need not import it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sentrep.encoder.adapters import Lora
from sentrep.encoder.loading.trained import Trained
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.types import TokenBatch


class Encoder(Protocol):
    """A `sentrep.SentenceEncoder`; see there."""

    backbone: PreTrainedModel
    tokenize: TextTokenizer
    sentence_modules: nn.ModuleList
    spare_pooler: dict[str, Tensor]
    adapter: Lora | None
    prompt: str | None
    prompts: dict[str, str]
    trained: Trained | None
    max_length: int
    max_seq_length: int | None
    training: bool

    @property
    def pooling(self) -> str:
        """Name of the pooling."""

    @property
    def subtract_template(self) -> bool:
        """Whether the prompt's own vector is taken off."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""

    @property
    def hidden_size(self) -> int:
        """H."""

    @property
    def embedding_dim(self) -> int:
        """D."""

    @property
    def normalizes(self) -> bool:
        """Whether the last module scales vectors to length 1."""

    @property
    def has_dropout(self) -> bool:
        """Whether two passes over one sentence can differ in training."""

    def modules(self) -> Iterator[nn.Module]:
        """What has a mode."""

    def train(self, mode: bool = True) -> Any:
        """Training or evaluation mode."""

    def eval(self) -> Any:
        """Evaluation mode."""

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Vectors (B, D) as `encode` gives them."""

    def state_dict(self) -> dict[str, Any]:
        """The weights."""

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Take weights."""
