"""A folder of ours as the one module of a sentence-transformers model, for what their own modules cannot express.

``modules.json`` names `SentenceEncoderModule` there. sentence-transformers loads a class that is not its own only with
``trust_remote_code=True``, and needs sentrep installed for it: then its vectors are ours. Without one of the two it
refuses the folder, where it would otherwise make a model of mean pooling of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from sentrep.encoder import encode as encoding
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.loading import st_folders
from sentrep.encoder.loading.settings import read_settings
from sentrep.types import TokenBatch


class SentenceEncoderModule(nn.Module):
    """An encoder as a module of sentence-transformers, with the ids and vectors of `encode`.

    Args:
        encoder: the whole model, with prompt, pooling and modules.
    """

    save_in_root = True

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """transformers' tokenizer, which knows nothing of the prompt."""
        return self.encoder.tokenize.tokenizer

    @property
    def max_seq_length(self) -> int | None:
        """As in `SentenceEncoder`: with a prompt, the length of the text alone."""
        return self.encoder.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, length: int | None) -> None:
        self.encoder.max_seq_length = length

    def tokenize(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """``input_ids`` and ``attention_mask`` (B, L) of texts."""
        ids, _ = self.encoder.tokenize(texts, self.encoder.max_seq_length)
        tokens = encoding.pad(ids, self.encoder.tokenize.pad_token_id)
        return {"input_ids": tokens.input_ids, "attention_mask": tokens.attention_mask}

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Adds ``sentence_embedding`` (B, D); there are no ``token_embeddings``."""
        lengths = features["attention_mask"].sum(1).cpu().numpy()
        vectors = self.encoder.embed(TokenBatch(features["input_ids"], features["attention_mask"], lengths)).float()
        return {**features, "sentence_embedding": vectors}

    def get_embedding_dimension(self) -> int:
        """D."""
        return self.encoder.embedding_dim

    get_sentence_embedding_dimension = get_embedding_dimension  # the name of older versions

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write a folder of ours; sentence-transformers writes its prompts before and its other files after this."""
        self.encoder.prompts, self.encoder.default_prompt_name = st_folders.read_prompts(Path(output_path))
        self.encoder.save_pretrained(output_path)

    @staticmethod
    def load(path: str) -> SentenceEncoderModule:
        """The module of a folder that `SentenceEncoder.save_pretrained` wrote."""
        with torch.random.fork_rng(devices=[]):
            encoder = SentenceEncoder.from_pretrained(path)
        modules: Any = encoder.sentence_modules
        own = len(read_settings(Path(path)).modules)
        encoder.set_modules(modules[:own])  # sentence-transformers itself runs those that it has added
        return SentenceEncoderModule(encoder)
