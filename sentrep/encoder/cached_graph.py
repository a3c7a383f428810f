"""`encode` by onnxruntime: an encoder that does not change is exported once, and its graph is kept on disk."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sentrep.encoder.fingerprint import fingerprint
from sentrep.encoder.graph import Run, open_graph, run_graph, save_graph
from sentrep.encoder.loading.model_files import one_sentence
from sentrep.errors import InputError
from sentrep.extras import lacking, require
from sentrep.io.files import hidden
from sentrep.io.paths import default_cache_dir
from sentrep.types import TokenBatch
from sentrep.version import __version__

logger = logging.getLogger("sentrep")

Embed = Callable[[TokenBatch], Tensor]
"""Tokens (B, L) → vectors (B, D)."""

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
OPEN_AFTER, BUILD_AFTER = 16, 500
"""Passes of torch after which a graph on disk is read (half a second), and after which one is built (5 to 8 seconds of
the processor): a pass of one sentence saves 5 to 7 ms, a pass of 32 saves 20 ms."""
_OTHERS = (torch.bfloat16, torch.float16, torch.float64)
CLOSE = 1e-5
"""Largest difference between torch's vectors and the graph's, as a share of the largest coordinate."""


class CachedGraph:
    """The graph of one encoder, from the pass on that earns it. Copies and pickles begin anew."""

    def __init__(self) -> None:
        self._passes, self._due = 0, OPEN_AFTER
        self._weights: list[tuple[int, int]] = []
        self._embed: Embed | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[CachedGraph], tuple[()]]:
        return CachedGraph, ()

    def embed(self, encoder: Any, tokens: TokenBatch) -> Tensor:
        """Vectors (B, D) by the graph where there is one for the present weights, else by torch.

        Args:
            encoder: a `SentenceEncoder` in evaluation mode.
            tokens: (B, L).

        Raises:
            InputError: ``backend`` is ``onnx``, and a package is missing or the model cannot be exported.
        """
        wanted = encoder.compute.backend == "onnx"
        off = encoder.compute.backend == "torch" or torch.is_autocast_enabled("cpu")
        if off or not (wanted or _installed()):
            return encoder.embed(tokens)
        weights = [(weight.data_ptr(), _changes(weight)) for weight in encoder.parameters()]
        if weights != self._weights:
            self._passes, self._due, self._weights, self._embed = 0, OPEN_AFTER, weights, None
        if self._embed is None and (wanted or self._passes >= self._due):
            with self._lock, torch.inference_mode(False):
                if self._embed is None:
                    self._find(encoder, wanted)
        self._passes += 1
        return (self._embed or encoder.embed)(tokens)

    def _find(self, encoder: Any, wanted: bool) -> None:
        """Open the graph, or build it where that pays; a model that has no graph stays with torch."""
        if any(_changes(w) < 0 or w.device.type != "cpu" or w.dtype in _OTHERS for w in encoder.parameters()):
            self._embed = encoder.embed
            return
        file = default_cache_dir() / "graphs" / f"{_name(encoder)}.onnx"
        if wanted:
            require("backend onnx", "onnx", *PACKAGES)
        elif not file.is_file() and self._passes < BUILD_AFTER:
            self._due = BUILD_AFTER
            return
        try:
            if not file.is_file():
                logger.warning(
                    "encode: building an ONNX graph of this model, once: it is kept as %s (compute.backend=torch turns "
                    "this off)", file,
                )  # fmt: skip
                file.parent.mkdir(parents=True, exist_ok=True)
                save_graph(encoder, temporary := hidden(file))
                os.replace(temporary, file)
            with one_sentence(f"{file}: this graph cannot be read; delete it"):
                self._embed = functools.partial(self._checked, encoder, open_graph(file)[0])
        except (InputError, OSError) as error:
            if wanted:
                raise
            logger.warning("encode: %s; torch computes on", error)
            self._embed = encoder.embed

    def _checked(self, encoder: Any, run: Run, tokens: TokenBatch) -> Tensor:
        """The first pass: both ways."""
        expected, found = encoder.embed(tokens).float(), run_graph(run, tokens)
        apart = ((found - expected).abs().max() / expected.abs().max()).item()
        if apart <= CLOSE:
            logger.info("encode: onnxruntime computes from now on (first batch: %.0e from torch)", apart)
            self._embed = functools.partial(run_graph, run)
        else:
            logger.warning("encode: the graph of this model differs from torch by %.0e; torch computes on", apart)
            self._embed = encoder.embed
        return expected


def _changes(weight: Tensor) -> int:
    """How often it was changed in place; -1 for tensors of the inference mode, which do not count."""
    return -1 if weight.is_inference() else weight._version


@functools.cache
def _installed() -> bool:
    return lacking(*PACKAGES) is None


def _name(encoder: Any) -> str:
    return f"{fingerprint(encoder)}-{__version__}-torch{torch.__version__}"
