"""The encoder that a command works with, and the sentences that it is given."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
import torch

from sentrep import checks
from sentrep.cli.options import search_current_folder
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError, first_line

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
    try:
        return encoder.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (AssertionError, RuntimeError) as error:  # a torch without CUDA raises the first
        raise InputError(f"device {device} cannot be used here: {first_line(error)}; leave --device out") from error


def in_precision(precision: Precision, encoder: SentenceEncoder) -> torch.autocast:
    """The context in which the encoder computes in this precision; its vectors are always float32."""
    return torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16")


def vectors_of(
    encoder: SentenceEncoder,
    sentences: list[str],
    *,
    batch_size: int,
    precision: Precision,
    normalize: bool,
    prompt_name: str | None = None,
) -> np.ndarray:
    """Vectors (n, D) float32 of n sentences."""
    with in_precision(precision, encoder):
        found = encoder.encode(sentences, batch_size, False, normalize_embeddings=normalize, prompt_name=prompt_name)
    return np.asarray(found, np.float32)
