"""Translation with any sequence-to-sequence model of transformers, the Marian models of OPUS-MT above all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from sentrep.data.augmentation.model_options import Generation
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


def numbers(how: Generation, device: str) -> torch.dtype:
    """The type of the weights and of the computation."""
    if how.dtype != "auto":
        chosen: torch.dtype = getattr(torch, how.dtype)
        return chosen
    return torch.bfloat16 if device.startswith("cuda") and torch.cuda.is_bf16_supported() else torch.float32


def settings_of(how: Generation, device: str) -> dict[str, Any]:
    """The settings that determine the translations, as plain data."""
    names = ("sample", "temperature", "top_p", "seed") if how.sample else ("beams",)
    dtype = str(numbers(how, device)).removeprefix("torch.")
    return {name: getattr(how, name) for name in names} | {"max_tokens": how.max_tokens, "dtype": dtype}


class Translation(NamedTuple):
    """One translated sentence."""

    text: str
    problem: str | None
    """Why there is no usable text: `TOO_LONG`, `UNFINISHED`, or None."""


class Translator:
    """One direction.

    Args:
        model: a folder or a hub id, for example ``Helsinki-NLP/opus-mt-en-zh``. A folder never touches the network.
        generation: how to translate.
        device: where it runs.
        prefix: text that the model wants before every sentence, such as ``>>cmn<<``.

    Raises:
        InputError: there is no such model, it does not translate, or its tokenizer needs a package that is missing.
    """

    def __init__(
        self, model: str, generation: Generation | None = None, *, device: str = "cpu", prefix: str = ""
    ) -> None:
        self._how = how = generation or Generation()
        self._prefix = f"{prefix} " if prefix else ""
        self._tokenizer, self._model = _load(model)
        settings = settings_text(self._model.config) + settings_text(self._model.generation_config)
        self.fingerprint = hash_weights(settings, self._model.state_dict())
        """Hash of the weights, whatever they are converted to, and of the settings."""
        try:
            self._model.to(device, numbers(how, device)).eval()
        except (RuntimeError, AssertionError) as error:  # torch's own message fills pages
            raise InputError(f"device {device} cannot be used here: {first_line(error)}") from None
        self._model.generation_config.max_length = None  # the limit is given with every batch
        self._limit = getattr(self._model.config, "max_position_embeddings", None) or how.max_tokens
        self._max_tokens = min(how.max_tokens, self._limit)

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[str], draw: tuple[int, ...] = ()) -> list[Translation]:
        """Translate a batch; what cannot be translated comes back with the reason.

        A source that is too long is left out, never cut. A translation is unfinished when it has reached twice the
        length of the longest source of the batch and 16 tokens more: models that loop stop there.

        Args:
            sentences: any number, best of like lengths.
            draw: numbers that name this batch, which sampling draws from.

        Raises:
            InputError: the memory of the device does not suffice.
        """
        sources = self._tokenizer([self._prefix + sentence for sentence in sentences])["input_ids"]
        short = [index for index, ids in enumerate(sources) if len(ids) <= self._max_tokens]
        results = [Translation("", TOO_LONG)] * len(sentences)
        if not short:
            return results
        longest = max(len(sources[index]) for index in short)
        room = min(2 * longest + _MORE_TOKENS, self._limit - 1)
        output = self._generate([sources[index] for index in short], room, draw)
        texts = self._tokenizer.batch_decode(output, skip_special_tokens=True)
        lengths = (output != self._tokenizer.pad_token_id).sum(1).tolist()
        for index, text, length in zip(short, texts, lengths, strict=True):
            results[index] = Translation(text.strip(), UNFINISHED if length >= room else None)
        return results

    def _generate(self, sources: list[list[int]], room: int, draw: tuple[int, ...]) -> torch.Tensor:
        """(B, ≤ room) generated ids, without the token that starts the decoder."""
        device, how = self._model.device, self._how
        options: dict[str, Any] = {"do_sample": how.sample, "num_beams": 1 if how.sample else how.beams}
        if how.sample:
            options |= {"temperature": how.temperature, "top_p": how.top_p, "top_k": 0}
        inputs = self._tokenizer.pad({"input_ids": sources}, return_tensors="pt").to(device)
        try:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                if how.sample:
                    torch.manual_seed(int(np.random.SeedSequence((how.seed, *draw)).generate_state(1)[0]))
                output = self._model.generate(
                    input_ids=inputs["input_ids"],
                    attention_mask=inputs["attention_mask"],
                    max_new_tokens=room,
                    **options,
                )
        except torch.OutOfMemoryError:
            most = f"{len(sources)} sentences of up to {max(map(len, sources))} tokens"
            raise InputError(f"the memory of {device} does not suffice to translate {most}; lower batch_size") from None
        return output[:, 1:].cpu()


def _load(name: str) -> tuple[Any, Any]:
    """Tokenizer and model."""
    folder = expanded(name)
    local = folder.is_dir()
    if not local and os.path.lexists(name):
        raise InputError(f"{name}: is no folder, where a translation model is a folder or a hub id")
    path, hub = str(folder) if local else name, {"local_files_only": local, "trust_remote_code": False}
    fail_fast()
    try:
        with quiet_transformers(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # no step here uses it
            tokenizer = AutoTokenizer.from_pretrained(path, model_max_length=_UNLIMITED, **hub)
            return tokenizer, AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float32, **hub)
    except InputError:
        raise
    except (ImportError, OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        if isinstance(error, ImportError):
            require(f"{name}: its tokenizer", "backtranslate", "sentencepiece")
        where = "this folder holds" if local else "no such folder, and the model hub did not answer or has"
        raise InputError(f"{name}: {where} no translation model that loads: {first_line(error)}") from error
