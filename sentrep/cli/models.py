"""The encoder that a command works with, and the sentences that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, cast

import numpy as np
import torch

from sentrep import checks
from sentrep.cli.errors import UsageError
from sentrep.cli.options import search_current_folder
from sentrep.data.files import sentences_of
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.text import load
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError, did_you_mean, first_line

Precision = Literal["fp32", "bf16"]
Backend = Literal["torch", "onnx"]


def load_encoder(
    model: str, pooling: str | None, device: str | None, trust_remote_code: bool = False, backend: Backend = "torch"
) -> SentenceEncoder:
    """An encoder on its device; see `sentrep encode` for the arguments.

    Raises:
        InputError: for a model that cannot be loaded, and for a graph with another device or pooling.
    """
    if trust_remote_code:
        search_current_folder()
    if backend == "onnx":
        if pooling is not None or device not in (None, "cpu"):
            raise InputError("a graph has its own pooling and computes on the CPU: leave out --pooling and --device")
        graph = SentenceEncoder.from_pretrained(model, trust_remote_code=trust_remote_code, backend="onnx")
        return cast(SentenceEncoder, graph)
    encoder = SentenceEncoder.from_pretrained(
        model, trust_remote_code=trust_remote_code, **checks.given(pooling=pooling)
    )
    own = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return encoder.to(own if device is None else device)
    except (AssertionError, RuntimeError) as error:  # torch raises the first where it is built without CUDA
        raise InputError(f"device {device} cannot be used here: {first_line(error)}; leave --device out") from error


def check_precision(precision: Precision, encoder: SentenceEncoder) -> None:
    """Warn of bf16 on a CPU that emulates it.

    Raises:
        InputError: for bf16 and a graph.
    """
    if precision == "bf16" and not isinstance(encoder, SentenceEncoder):
        raise InputError("precision bf16 is for the backend torch; a graph computes in its exported precision")
    if precision == "bf16" and encoder.device.type == "cpu":
        from sentrep.cli.precision import warn_of_slow_bf16  # with Lightning, which float32 does without

        warn_of_slow_bf16()


def in_precision(precision: Precision, encoder: SentenceEncoder) -> torch.autocast:
    """The context in which the encoder computes in this precision; its vectors are always float32."""
    return torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16")


def whitening_corpus(whiten: str | None, whiten_dim: int | None) -> Iterator[str] | None:
    """The sentences of the file ``whiten`` that a whitening is fitted on, or None for no whitening.

    Raises:
        UsageError: for a dimension without a file.
    """
    if whiten is None and whiten_dim is not None:
        raise UsageError("--whiten_dim says how far to cut a whitening: name a file of sentences with --whiten")
    return None if whiten is None else (sentences_of(row)[0] for row in load(whiten, streaming=True))


def prompt_of(encoder: SentenceEncoder, name: str | None) -> str | None:
    """The text of one of the model's prompts; None for its default prompt.

    Raises:
        InputError: there is none of this name.
    """
    if name is None:
        return None
    if name not in encoder.prompts:
        hint = did_you_mean(name, encoder.prompts) or f"; it has {', '.join(encoder.prompts) or 'none'}"
        raise InputError(f"--prompt_name {name}: the model has no prompt of this name{hint}")
    return encoder.prompts[name]


def vectors_of(
    encoder: SentenceEncoder,
    sentences: list[str],
    *,
    batch_size: int,
    precision: Precision,
    normalize: bool,
    prompt: str | None = None,
) -> np.ndarray:
    """Vectors (n, D) float32 of n sentences."""
    with in_precision(precision, encoder):
        found = encoder.encode(sentences, batch_size, False, normalize_embeddings=normalize, prompt=prompt)
    return np.asarray(found, np.float32)


def protocol_notes(encoder: SentenceEncoder, sets: Sequence[ScoredPairs]) -> list[str]:
    """Why the protocols differ, and where numbers of other programs may."""
    names = {pairs.name for pairs in sets}
    notes = []
    if {"sickr", "sickr-all"} <= names:
        notes.append("SICK-R: SentEval takes the 4927 test pairs, MTEB all 9927 (train + dev + test).")
    elif "sickr-all" in names:
        notes.append("SICK-R: all 9927 pairs (MTEB); SentEval's test pairs need --sts_folder: the hub has no splits.")
    distinct = list(dict.fromkeys(sentence for pairs in sets for sentence in (*pairs.first, *pairs.second)))
    cut = encoder.tokenize(distinct, encoder.max_seq_length)[1]
    limit = f"{encoder.max_seq_length} tokens" if encoder.max_seq_length else "the model's own limit"
    notes.append(
        f"Both protocols: the model's own pooling ({encoder.pooling}) and length ({limit}; {cut} of {len(distinct)} "
        "sentences cut). Papers that follow SentEval choose the pooling by a flag and cut nothing."
    )
    return notes
