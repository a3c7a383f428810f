"""Translation with any sequence-to-sequence model of transformers, the Marian models of OPUS-MT above all."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from sentrep.errors import InputError, first_line
from sentrep.extras import require
from sentrep.io.configurations import quiet_transformers, settings_text
from sentrep.io.hashes import hash_weights
from sentrep.io.hub import fail_fast
from sentrep.io.paths import expanded

TOO_LONG = "source too long"
UNFINISHED = "unfinished translation"

_MORE_TOKENS = 16
_UNLIMITED = 1 << 30  # sources are measured here; the tokenizer would warn of each one above its own limit


class Translation(NamedTuple):
    """One translated sentence."""

    text: str
    problem: str | None
    """Why there is no usable text: `TOO_LONG`, `UNFINISHED`, or None."""


class Translator:
    """One direction.

    On a GPU that has it the model computes in bfloat16, elsewhere in float32.

    Args:
        model: a folder or a hub id, for example ``Helsinki-NLP/opus-mt-en-zh``. A folder never touches the network.
        beams: width of the beam search; 1 is greedy.
        max_tokens: longer sentences are left out, as are those above the model's own limit.
        device: where it runs.
        prefix: text that the model wants before every sentence, such as ``>>cmn<<``.

    Raises:
        InputError: the model does not load, or a package of its tokenizer is missing.
    """

    def __init__(
        self, model: str, beams: int = 4, max_tokens: int = 256, *, device: str = "cpu", prefix: str = ""
    ) -> None:
        self._beams = beams
        self._prefix = f"{prefix} " if prefix else ""
        self._tokenizer, self._model = _load(model)
        settings = settings_text(self._model.config) + settings_text(self._model.generation_config)
        self.fingerprint = hash_weights(settings, self._model.state_dict())
        """Hash of the weights, whatever they are converted to, and of the settings."""
        on_gpu = device.startswith("cuda")
        self.dtype = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float32
        """The type of the weights and of the computation."""
        self._model.to(device, self.dtype).eval()
        self._model.generation_config.max_length = None  # the limit is given with every batch
        self._limit = getattr(self._model.config, "max_position_embeddings", None) or max_tokens
        self._max_tokens = min(max_tokens, self._limit)

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[str]) -> list[Translation]:
        """Translate a batch; what cannot be translated comes back with the reason.

        A source that is too long is left out, never cut. A translation is unfinished when it has reached twice the
        length of the longest source of the batch and 16 tokens more: models that loop stop there.

        Args:
            sentences: any number, best of like lengths.
        """
        sources = self._tokenizer([self._prefix + sentence for sentence in sentences])["input_ids"]
        short = [index for index, ids in enumerate(sources) if len(ids) <= self._max_tokens]
        results = [Translation("", TOO_LONG)] * len(sentences)
        if not short:
            return results
        longest = max(len(sources[index]) for index in short)
        room = min(2 * longest + _MORE_TOKENS, self._limit - 1)
        padded = self._tokenizer.pad({"input_ids": [sources[index] for index in short]}, return_tensors="pt")
        inputs, how = padded.to(self._model.device), {"num_beams": self._beams, "do_sample": False}
        output = self._model.generate(**inputs, max_new_tokens=room, **how)[:, 1:].cpu()  # without the first, a start
        texts = self._tokenizer.batch_decode(output, skip_special_tokens=True)
        lengths = (output != self._tokenizer.pad_token_id).sum(1).tolist()
        for index, text, length in zip(short, texts, lengths, strict=True):
            results[index] = Translation(text.strip(), UNFINISHED if length >= room else None)
        return results


def _load(name: str) -> tuple[Any, Any]:
    """Tokenizer and model."""
    folder = expanded(name)
    path = str(folder) if folder.is_dir() else name
    hub = {"local_files_only": folder.is_dir(), "trust_remote_code": False}
    fail_fast()
    with quiet_transformers(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # no step here uses it
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, model_max_length=_UNLIMITED, **hub)
            return tokenizer, AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float32, **hub)
        except ImportError:
            require(f"{name}: its tokenizer", "backtranslate", "sentencepiece")
            raise
        except (OSError, ValueError) as error:  # the hub's do not say which model is missing
            raise InputError(f"{name}: no translation model that loads: {first_line(error)}") from error
