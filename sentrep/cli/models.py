"""The encoder that a command works with, and the sentences that it is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

import torch

from sentrep import checks
from sentrep.cli.errors import UsageError
from sentrep.cli.functions import search_current_folder
from sentrep.data.text.corpus import Corpus, open_corpus
from sentrep.data.text.shard import local_rank
from sentrep.encoder import GraphEncoder, SentenceEncoder
from sentrep.errors import InputError

Precision = Literal["fp32", "bf16"]
Backend = Literal["torch", "compiled", "onnx", "openvino"]


def sentences_of(corpus: Corpus) -> Iterator[str]:
    """The sentences of a text's first column, row by row."""
    return (row.sentences[0] for row in corpus.rows())


def load_encoder(
    model: str, pooling: str | None, device: str | None, trust_remote_code: bool = False, backend: Backend = "torch"
) -> SentenceEncoder:
    """An encoder on its device; see `sentrep encode` for the arguments.

    Raises:
        InputError: for a model that cannot be loaded or a device that is not there.
    """
    if device == "meta":
        raise InputError("device meta cannot be used here: it computes nothing; use cpu, or leave it out")
    if trust_remote_code:
        search_current_folder()
    if backend in ("onnx", "openvino"):
        if pooling is not None or device not in (None, "cpu"):
            raise InputError(f"a graph has its own pooling and computes on the CPU: with backend {backend} leave out "
                             "pooling and device")  # fmt: skip
        return cast(SentenceEncoder, GraphEncoder(model, backend, trust_remote_code))
    encoder = SentenceEncoder.from_pretrained(
        model, trust_remote_code=trust_remote_code, **checks.given(pooling=pooling)
    )
    try:
        own = f"cuda:{local_rank()}" if torch.cuda.is_available() else "cpu"
        encoder.to(own if device is None else device)
    except (RuntimeError, AssertionError) as error:  # torch's own message goes on over pages
        raise InputError(f"device {device} cannot be used here: {str(error).splitlines()[0]}") from None
    if backend == "compiled":
        encoder.compile_encoding()
    return encoder


def in_precision(precision: Precision, encoder: SentenceEncoder) -> torch.autocast:
    """The context in which the encoder computes in that precision; its vectors are float32 in either.

    Raises:
        InputError: for bf16 and a graph.
    """
    if precision == "bf16" and not isinstance(encoder, SentenceEncoder):
        raise InputError("precision bf16 is for the backend torch; a graph computes in what it was exported in")
    return torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16")


def whitening_corpus(whiten: str | None, whiten_dim: int | None) -> Iterator[str] | None:
    """The sentences of the file ``whiten`` that a whitening is fitted on, or None for no whitening.

    Raises:
        UsageError: for a dimension without a file.
    """
    if whiten is None and whiten_dim is not None:
        raise UsageError("--whiten_dim says how far to cut a whitening: name a file of sentences with --whiten")
    return None if whiten is None else sentences_of(open_corpus(whiten))
