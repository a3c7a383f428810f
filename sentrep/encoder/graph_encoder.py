"""Exported graphs: a whole model in one file that onnxruntime or OpenVINO computes, with the `encode` of an encoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sentrep.encoder.compute.layout import position_limit
from sentrep.encoder.encode import TextEncoder
from sentrep.encoder.graph import INPUTS, VECTORS, Run, check_outputs, open_graph, run_graph
from sentrep.encoder.loading.model_files import one_sentence
from sentrep.encoder.loading.settings import SETTINGS_FILE, read_settings
from sentrep.encoder.loading.sources import open_source
from sentrep.encoder.loading.st_folders import GRAPH_FILES
from sentrep.encoder.loading.tokenizers import load_tokenizer
from sentrep.encoder.modules import Normalize, described
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.errors import InputError
from sentrep.extras import require
from sentrep.io.paths import expanded
from sentrep.types import TokenBatch

Backend = Literal["onnx", "openvino"]


class GraphEncoder(TextEncoder):
    """The graph of ``sentrep export --format``, with `SentenceEncoder`'s ways of encoding: for use, not for training.

    Sentences are tokenised, sorted and batched as there. The transformer's weights are the graph's; torch reads none.

    Args:
        folder: of the model.
        backend: ``onnx`` (the package onnxruntime) or ``openvino``; both compute on the CPU, with torch's threads.
        trust_remote_code: whether code that the folder names may run.

    Raises:
        InputError: the graph or the package is missing, or something in the folder is damaged.
    """

    device = torch.device("cpu")
    embedding_dim: int = 0
    normalizes: bool = False

    def __init__(self, folder: str | Path, backend: Backend, trust_remote_code: bool = False) -> None:
        if backend not in GRAPH_FILES:
            raise InputError(f"backend must be one of {', '.join(GRAPH_FILES)}, got {backend!r}")
        place = expanded(folder)
        self._file = place / GRAPH_FILES[backend]
        if not self._file.is_file() or not (place / SETTINGS_FILE).is_file():
            raise InputError(
                f"{folder}: no graph of sentrep in it ({GRAPH_FILES[backend]}); write one: "
                f"sentrep export MODEL --output FOLDER --format {backend}"
            )
        source: Any = open_source({"name": str(place), "trust_remote_code": trust_remote_code}, whole=True)
        self.settings = settings = source.settings
        exported = read_settings(place)
        if (settings.pooling, settings.modules) != (exported.pooling, exported.modules):
            raise InputError(
                f"{self._file}: the pooling or modules have changed after its export; export the model again"
            )
        self.pooling, self.prompt = settings.pooling, settings.prompt
        self.prompts, self.default_prompt_name = settings.prompts, settings.default_prompt_name
        self.max_seq_length = settings.max_seq_length
        self.normalizes = settings.modules[-1:] == described([Normalize()])
        limit = position_limit(source.config)
        self.tokenize = TextTokenizer(load_tokenizer(source, None), settings.prompt, limit)
        with one_sentence(f"{self._file}: this graph cannot be read"):
            self._run, self.embedding_dim = _OPENERS[backend](self._file)

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Vectors (B, D), float32, see `TextEncoder.embed`."""
        return run_graph(self._run, tokens)

    def state_dict(self) -> dict[str, Tensor]:
        """The graph's files as bytes, by which `sentrep.encoder.fingerprint` tells graphs apart."""
        files = sorted(file for file in self._file.parent.iterdir() if file.stem.startswith(self._file.stem))
        return {file.name: torch.from_file(str(file), size=file.stat().st_size, dtype=torch.uint8) for file in files}

    @property
    def sentence_modules(self) -> Any:
        """The modules after the pooling are fixed in a graph.

        Raises:
            InputError: always.
        """
        raise InputError("a graph takes no whitening: fit it before, by sentrep export MODEL --output FOLDER --whiten")


def _open_onnx(file: Path) -> tuple[Run, int]:
    require("backend onnx", "onnx", "onnxruntime")
    return open_graph(file)


def _open_openvino(file: Path) -> tuple[Run, int]:
    require("backend openvino", "openvino", "openvino")
    import openvino

    core = openvino.Core()
    model = core.read_model(file)
    check_outputs({name for output in model.outputs for name in output.names}, file)
    inputs = [model.input(name).node for name in INPUTS]
    vectors = openvino.Model([model.output(VECTORS).node], inputs)  # without what only the tokens' states need
    # by itself it would compute in bfloat16 where the machine has it
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(vectors, "CPU", {**settings, "INFERENCE_NUM_THREADS": torch.get_num_threads()})

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        found: np.ndarray = compiled([ids, mask])[0]
        return found

    return run, vectors.output(0).partial_shape[1].get_length()


_OPENERS: dict[str, Callable[[Path], tuple[Run, int]]] = {"onnx": _open_onnx, "openvino": _open_openvino}
