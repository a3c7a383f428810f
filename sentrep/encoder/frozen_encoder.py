"""A trained encoder that judges and is never trained: complementary model, teacher."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sentrep import distributed
from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.types import Need, TextBatch, TokenBatch


class FrozenEncoder:
    """Vectors or masked-token predictions of another encoder, in evaluation mode and without gradient.

    It is no `nn.Module` on purpose: its parameters are neither trained nor moved nor saved along with the plug-in that
    holds it, and ``train()`` does not reach it. It is read when training starts, so a checkpoint loads where the frozen
    model is absent, and copies and pickles carry its name alone.

    `EncoderServices.frozen` makes it, so that `SentRepModule` loads it when training starts.

    Args:
        model: what `SentenceEncoder.from_pretrained` loads: a folder, a checkpoint or a hub id.
        vocabulary: fingerprint of the tokenizer and prompt whose token ids it reads; None: not compared.
        rows_at_once: sentences in one pass; None for all.
    """

    def __init__(self, model: str, vocabulary: str | None = None, rows_at_once: int | None = None) -> None:
        self.model = model
        self._encoder: SentenceEncoder | None = None
        self._lm_head: nn.Module | None = None
        self._fingerprint: str | None = None
        self._vocabulary = vocabulary
        self._rows_at_once = rows_at_once

    @torch.compiler.disable
    @torch.no_grad()
    def embed(self, tokens: TokenBatch) -> Tensor:
        """(B, D') float32, as `SentenceEncoder.encode` gives them with its own pooling and head, for any sentences.

        Raises:
            InputError: when the model cannot be loaded, changed since the checkpoint, or cannot read these tokens.
        """
        return self._reading(tokens)(tokens, need=Need(tokens=False)).embedding.float()

    @torch.compiler.disable
    @torch.no_grad()
    def predict_tokens(self, tokens: TokenBatch) -> Tensor:
        """(B, L, V) logits of the model's own masked-LM head, which is random, with a warning, where it has none.

        Raises:
            InputError: as `embed`, and where the head cannot be used apart from its backbone.
        """
        encoder = self._reading(tokens)
        if self._lm_head is None:
            self._lm_head = encoder.language_model_head(0).requires_grad_(False).eval()
        logits: Tensor = self._lm_head.to(encoder.device)(encoder(tokens).token_states)
        return logits

    def _reading(self, tokens: TokenBatch) -> SentenceEncoder:
        """The model, on the device of tokens that it can read."""
        encoder = self.load()
        limit, length = encoder.tokenize.limit, tokens.input_ids.shape[1]
        if limit is not None and length > limit:
            raise InputError(
                f"{self.model}: it reads at most {limit} tokens, this batch has sentences of {length}; "
                "lower encoder.max_length or use another model"
            )
        if encoder.device != tokens.input_ids.device:
            encoder.to(tokens.input_ids.device)
        return encoder

    def embed_pairs(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Anchors (B, D') of this process and keys (N, D') of all: the given positives, or the sentences themselves."""
        anchors = self.embed(batch.anchor)
        keys = anchors if batch.positive is None else self.embed(batch.positive)
        return anchors, distributed.gather(keys)

    def state(self) -> dict[str, Any]:
        """For the checkpoint: the name, and a fingerprint of weights and settings once the model has been read."""
        return {"model": self.model, "fingerprint": self._fingerprint}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take the fingerprint from a checkpoint: the model is read again, and must match it."""
        self._encoder, self._lm_head = None, None
        self._fingerprint = state["fingerprint"] or self._fingerprint

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": None, "_lm_head": None}

    def load(self) -> SentenceEncoder:
        """The model, read now unless it has been: `SentRepModule` asks for it before the first step.

        Raises:
            InputError: it cannot be loaded, has another tokenizer or prompt, or has changed since the checkpoint.
        """
        if self._encoder is None:
            # layers draw their initial weights before the stored ones arrive; a resumed run, which loads at another
            # step than the uninterrupted one, must not draw other dropout masks for it
            with torch.random.fork_rng(devices=[]):
                compute = Compute(rows_at_once=self._rows_at_once)
                encoder = SentenceEncoder.from_pretrained(self.model, compute=compute).requires_grad_(False)
            if self._vocabulary is not None and encoder.tokenize.vocabulary != self._vocabulary:
                raise InputError(
                    f"{self.model}: its tokenizer or prompt differs from the trained encoder's, so it would misread "
                    "the token ids; use a model with the same tokenizer and prompt"
                )
            found = fingerprint(encoder)
            if self._fingerprint not in (None, found):
                raise InputError(
                    f"{self.model}: its weights or settings are not those that training began with; "
                    "put the former model back, or start anew instead of resuming"
                )
            self._encoder, self._fingerprint = encoder, found
        return self._encoder
