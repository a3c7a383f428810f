"""An encoder as one ONNX graph, from token ids to the vectors of `encode`: written, checked, and run by onnxruntime."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule
from sentence_transformers.util import disable_logging
from torch import Tensor, nn

from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.encode import TextEncoder, pad, preprocess
from sentrep.encoder.loading.checks import one_sentence
from sentrep.encoder.loading.folders import GRAPH_FILE, missing_for
from sentrep.encoder.st_modules import assembled
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.errors import InputError
from sentrep.extras import require
from sentrep.io.files import atomic_folder
from sentrep.io.paths import expanded, writing
from sentrep.types import Need, TokenBatch

_INPUTS = ("input_ids", "attention_mask")
_VECTORS, _STATES = "sentence_embedding", "last_hidden_state"
"""Outputs: the vectors (B, D) of `encode`, and the tokens' states (B, L, H), which sentence-transformers pools."""
_BATCH = ["It rains.", "A man plays the guitar.", "The committee meets again on Thursday to discuss the results."]
"""Sentences on which a new graph is compared with torch."""


class GraphEncoder(TextEncoder):
    """The graph of ``sentrep export --format onnx``, which replaces a model's torch modules; it cannot be trained.

    `SentenceEncoder.from_pretrained` returns it for ``backend="onnx"``. onnxruntime computes on the CPU, with torch's
    number of threads.

    Args:
        encoder: the `SentenceEncoder` of the folder.
        folder: of the model.

    Raises:
        InputError: the graph or the package onnxruntime is missing, or the graph is damaged.
    """

    def __init__(self, encoder: Any, folder: str | Path) -> None:
        file = expanded(folder) / GRAPH_FILE
        if not file.is_file():
            raise InputError(f"{folder}: no graph in it; write one: sentrep export MODEL --output FOLDER --format onnx")
        require("backend onnx", "onnx", "onnxruntime")
        self.tokenize: TextTokenizer = encoder.tokenize
        self.pooling: str = encoder.pooling
        with one_sentence(f"{file}: this graph cannot be read"):
            graph = _Session(encoder, file)
        self._st = (assembled([graph], encoder.model, "cpu"),)
        self.embedding_dim: int = encoder.embedding_dim

    def state_dict(self) -> dict[str, Tensor]:
        """The graph's files as bytes, by which `sentrep.encoder.fingerprint` tells graphs apart."""
        graph: Any = self.model[0]
        files = sorted(graph.file.parent.glob(f"{graph.file.stem}.*"))
        return {file.name: torch.from_file(str(file), size=file.stat().st_size, dtype=torch.uint8) for file in files}


def write_graph(encoder: Any, folder: str | Path) -> None:
    """Save an encoder as a model folder with its graph, which is compared with torch on one batch.

    Args:
        encoder: a `SentenceEncoder`.
        folder: see `SentenceEncoder.save_pretrained`.

    Raises:
        InputError: a package is missing, torch cannot export the model, or the graph's vectors differ from torch's by
            more than 1e-5 of the largest coordinate (1e-4 if the prompt's own vector is subtracted).
    """
    require_export()
    encoder.save_pretrained(folder)
    plain = type(encoder).from_pretrained(folder, trust_remote_code=True, compute=Compute(layout="padded"))
    with writing(folder), atomic_folder(expanded(folder) / Path(GRAPH_FILE).parent) as place:
        file = place / Path(GRAPH_FILE).name
        _export(plain, file)
        tokens = pad(plain.tokenize(_BATCH, plain.max_seq_length)[0], plain.tokenize.pad_token_id)
        with torch.inference_mode():
            expected = plain(tokens, need=Need(tokens=False)).embedding
        apart = float((_Session(plain, file).run(tokens) - expected).abs().max() / expected.abs().max())
        if not apart <= (1e-4 if plain.subtract_template else 1e-5):
            raise InputError(f"the graph's vectors differ from torch's by {apart:.0e}, so no graph is written")


def require_export() -> None:
    """Refuse `write_graph` where a package is missing."""
    require("format onnx", "onnx", "onnx", "onnxscript", "onnxruntime")


def _export(encoder: Any, file: Path) -> None:
    """Write the graph of an encoder in evaluation mode, whose passes are padded."""
    ids = encoder.tokenize
    states = missing_for(encoder.model) is None  # then sentence-transformers can pool them
    tokens = pad([[*ids.prefix, *[ids.suffix[-1]] * n, *ids.suffix] for n in (3, 5)], ids.pad_token_id)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=ids.limit)}
    quiet = disable_logging(logging.WARNING)  # it warns of packages that no encoder needs
    with quiet, warnings.catch_warnings(), one_sentence("this model cannot be written as a graph"):
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            _Graph(encoder, states).eval(), (tokens.input_ids, tokens.attention_mask), dynamo=True, verbose=False,
            input_names=_INPUTS, output_names=[_VECTORS, _STATES] if states else [_VECTORS],
            dynamic_shapes=(sizes, sizes),
        )  # fmt: skip
    if any(isinstance(size, int) for value in program.model.graph.inputs for size in value.shape):
        raise InputError("this model cannot be written as a graph: its code computes with a fixed number of tokens")
    program.save(file)


class _Graph(nn.Module):
    """Token ids and mask (B, L) → vectors (B, D) [, states (B, L, H)]."""

    def __init__(self, encoder: Any, states: bool) -> None:
        super().__init__()
        self.encoder, self.states = encoder, states

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        output = self.encoder(TokenBatch(input_ids, attention_mask), need=Need(tokens=self.states))
        return (output.embedding, output.token_states) if self.states else output.embedding


class _Session(InputModule):
    """The graph as the one module of a `SentenceTransformer`."""

    def __init__(self, encoder: Any, file: Path) -> None:
        import onnxruntime

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self.file, self._ids, self.max_seq_length = file, encoder.tokenize, encoder.max_seq_length
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def preprocess(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> dict[str, Tensor]:
        return preprocess(self._ids, inputs, prompt, self.max_seq_length)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        vectors = self.run(TokenBatch(features["input_ids"], features["attention_mask"]))
        return {**features, "sentence_embedding": vectors}

    def run(self, tokens: TokenBatch) -> Tensor:
        inputs = (tokens.input_ids.numpy(), tokens.attention_mask.numpy())
        return torch.from_numpy(self._session.run([_VECTORS], dict(zip(_INPUTS, inputs, strict=True)))[0])

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        raise InputError("a graph is fixed; save the model that it was written from")
