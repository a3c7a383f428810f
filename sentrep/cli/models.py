"""The encoder that a command works with, and the sentences that it is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch

from sentrep import checks
from sentrep.cli.options import search_current_folder
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.io.paths import MODEL

Precision = Literal["fp32", "bf16"]
Backend = Literal["torch", "onnx"]


def load_encoder(
    model: str, pooling: str | None, device: str | None, trust_remote_code: bool = False, backend: Backend = "torch"
) -> SentenceEncoder:
    """An encoder on its device; see `sentrep encode` for the arguments.

    Raises:
        InputError: for a model that cannot be loaded, a folder of runs, and for a graph with another device or pooling.
    """
    if (newest := _newest_model(model)) is not None:
        raise InputError(f"{model} is a folder of runs; its newest model is {newest}")
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
    return encoder.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def _newest_model(folder: str) -> Path | None:
    """The model that was written last below a folder of runs; None for another folder."""
    if not os.path.isdir(folder) or os.path.exists(os.path.join(folder, "modules.json")):
        return None
    # the folder of a run, of all runs with one name, or of all runs
    found = [path for depth in range(3) for path in Path(folder).glob(f"{'*/' * depth}{MODEL}/modules.json")]
    return max(found, key=lambda path: path.stat().st_mtime_ns).parent if found else None


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
