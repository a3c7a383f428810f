"""An encoder as one ONNX graph, from token ids to the vectors of `encode`: written, checked, and run by onnxruntime."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sentrep.encoder import encode as encoding
from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.compute.rows import position_limit
from sentrep.encoder.loading.model_files import one_sentence
from sentrep.encoder.loading.settings import SETTINGS_FILE, read_settings
from sentrep.encoder.loading.sources import open_source
from sentrep.encoder.loading.st_folders import GRAPH_FILE, missing_for
from sentrep.encoder.loading.tokenizers import load_tokenizer
from sentrep.encoder.modules import Normalize, described
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.errors import InputError, first_line
from sentrep.extras import require
from sentrep.io.files import atomic_folder
from sentrep.io.paths import expanded, writing
from sentrep.types import TokenBatch

_INPUTS = ("input_ids", "attention_mask")
_VECTORS, _STATES = "sentence_embedding", "last_hidden_state"
"""Outputs: the vectors (B, D) of `encode`, and the tokens' states (B, L, H), which sentence-transformers pools."""
_BATCH = [
    "It rains.",
    "A man plays the guitar.",
    "The committee meets again on Thursday to discuss the results.",
]
"""Sentences on which a new graph is compared with torch."""


class GraphEncoder(encoding.TextEncoder):
    """The graph of ``sentrep export --format onnx``, with the `encode` of `SentenceEncoder`; it cannot be trained.

    `SentenceEncoder.from_pretrained` returns it for ``backend="onnx"``. onnxruntime computes on the CPU, with torch's
    number of threads. The weights are the graph's; those of the folder are not read.

    Args:
        folder: of the model.
        trust_remote_code: whether code that the folder names may run.

    Raises:
        InputError: the graph or the package onnxruntime is missing, or something in the folder is damaged.
    """

    device = torch.device("cpu")
    embedding_dim: int = 0
    normalizes: bool = False

    def __init__(self, folder: str | Path, trust_remote_code: bool = False) -> None:
        place = expanded(folder)
        self._file = place / GRAPH_FILE
        if not self._file.is_file() or not (place / SETTINGS_FILE).is_file():
            raise InputError(
                f"{folder}: no graph of sentrep in it ({GRAPH_FILE}); write one: "
                "sentrep export MODEL --output FOLDER --format onnx"
            )
        require("backend onnx", "onnx", "onnxruntime")
        source: Any = open_source({"name": str(place), "trust_remote_code": trust_remote_code}, whole=True)
        self.settings = settings = source.settings
        exported = read_settings(place)
        if (settings.pooling, settings.modules) != (exported.pooling, exported.modules):
            raise InputError(
                f"{self._file}: the pooling or modules have changed after its export; export the model again"
            )
        self.pooling, self.prompt = settings.pooling, settings.prompt
        self.prompts, self.default_prompt_name = settings.prompts, settings.default_prompt_name
        self.similarity_fn_name, self.truncate_dim = settings.similarity_fn_name, settings.truncate_dim
        self.include_prompt = settings.include_prompt
        self.max_seq_length = settings.max_seq_length
        self.normalizes = settings.modules[-1:] == described([Normalize()])
        self.tokenize = TextTokenizer(load_tokenizer(source, None), settings.prompt, position_limit(source.config))
        with one_sentence(f"{self._file}: this graph cannot be read"):
            self._session = _open(self._file)
            shapes = {output.name: output.shape for output in self._session.get_outputs()}
            if _VECTORS not in shapes:
                raise InputError(f"{self._file}: sentrep did not write this graph; export the model again")
            self.embedding_dim = shapes[_VECTORS][1]

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Vectors (B, D), float32, see `TextEncoder.embed`."""
        return _run(self._session, tokens)

    def state_dict(self) -> dict[str, Tensor]:
        """The graph's files as bytes, by which `sentrep.encoder.fingerprint` tells graphs apart."""
        files = sorted(self._file.parent.glob(f"{self._file.stem}.*"))
        return {file.name: torch.from_file(str(file), size=file.stat().st_size, dtype=torch.uint8) for file in files}


def write_graph(encoder: Any, folder: str | Path) -> None:
    """Save an encoder as a model folder with its graph, which is compared with torch on one batch.

    The graph reads any number of sentences of any length. It lies where sentence-transformers looks for one.

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
        ids, _ = plain.tokenize(_BATCH, plain.max_seq_length)
        tokens = encoding.pad(ids, plain.tokenize.pad_token_id)
        with torch.inference_mode():
            expected = plain.embed(tokens).float()
        apart = float((_run(_open(file), tokens) - expected).abs().max() / expected.abs().max())
        if not apart <= (1e-4 if plain.subtract_template else 1e-5):
            raise InputError(f"the graph's vectors differ from torch's by {apart:.0e}, so no graph is written")


def require_export() -> None:
    """Refuse `write_graph` where a package is missing."""
    require("format onnx", "onnx", "onnx", "onnxscript", "onnxruntime")


def _export(encoder: Any, file: Path) -> None:
    """Write the graph of an encoder in evaluation mode, whose passes are padded."""
    states = missing_for(encoder.settings) is None  # then sentence-transformers can pool them
    ids = encoder.tokenize
    tokens = encoding.pad([[*ids.prefix, *[ids.suffix[-1]] * n, *ids.suffix] for n in (3, 5)], ids.pad_token_id)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=ids.limit)}
    try:
        with _quiet():
            program: Any = torch.onnx.export(
                _Graph(encoder, states).eval(), (tokens.input_ids, tokens.attention_mask), dynamo=True, verbose=False,
                input_names=_INPUTS, output_names=[_STATES, _VECTORS] if states else [_VECTORS],
                dynamic_shapes=(sizes, sizes),
            )  # fmt: skip
            program.save(file)
    except OSError:
        raise
    except Exception as error:  # torch's exporter raises its own type for each stage
        raise InputError(f"this model cannot be written as a graph: {first_line(error)}") from error
    if any(isinstance(size, int) for value in program.model.graph.inputs for size in value.shape):
        raise InputError("this model cannot be written as a graph: its code computes with a fixed number of tokens")


def _open(file: Path) -> Any:
    """A session of onnxruntime, with torch's number of threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _run(session: Any, tokens: TokenBatch) -> Tensor:
    inputs = (tokens.input_ids.numpy(), tokens.attention_mask.numpy())
    return torch.from_numpy(session.run([_VECTORS], dict(zip(_INPUTS, inputs, strict=True)))[0])


class _Graph(nn.Module):
    """Token ids and mask (B, L) → [states (B, L, H),] vectors (B, D)."""

    def __init__(self, encoder: Any, states: bool) -> None:
        super().__init__()
        self.encoder, self.states = encoder, states

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        tokens = TokenBatch(input_ids, attention_mask)
        if not self.states:
            return self.encoder.embed(tokens).float()
        output = self.encoder(tokens)
        return output.token_states, output.embedding.float()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(former)
