"""An encoder as one graph of ONNX: from token ids to the vectors of `encode`, written and run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sentrep.encoder import encode as encoding
from sentrep.errors import InputError, first_line
from sentrep.types import TokenBatch

INPUTS = ("input_ids", "attention_mask")
VECTORS, STATES = "sentence_embedding", "last_hidden_state"
"""Outputs: the vectors (B, D) of `encode`, and the tokens' states (B, L, H) where sentence-transformers can read on."""

Run = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Token ids and mask (B, L), int64 → vectors (B, D), float32."""


def save_graph(encoder: Any, file: Path, states: bool = False) -> None:
    """Write the graph of a `SentenceEncoder` in evaluation mode, for any number of sentences of any length.

    Args:
        encoder: its passes are padded.
        file: the graph's.
        states: whether the tokens' states are an output too.

    Raises:
        InputError: torch cannot export this model.
    """
    graph = _Graph(encoder, states).eval()
    ids = encoder.tokenize
    tokens = encoding.pad([[*ids.prefix, *[ids.suffix[-1]] * n, *ids.suffix] for n in (3, 5)], ids.pad_token_id)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=ids.limit)}
    with quiet():
        try:
            program: Any = torch.onnx.export(
                graph, (tokens.input_ids, tokens.attention_mask), dynamo=True, verbose=False,
                input_names=INPUTS, output_names=[STATES, VECTORS] if states else [VECTORS],
                dynamic_shapes=(sizes, sizes),
            )  # fmt: skip
            program.save(file)
        except Exception as error:  # of torch's exporter, which has a page for each
            raise InputError(f"this model cannot be written as a graph: {first_line(error)}") from error
    if any(isinstance(size, int) for value in program.model.graph.inputs for size in value.shape):
        raise InputError("this model cannot be written as a graph: its code computes with a fixed number of tokens")


def open_graph(file: Path) -> tuple[Run, int]:
    """The graph in onnxruntime, with torch's number of threads, and the width D of its vectors.

    Raises:
        InputError: it is not a graph of sentrep.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    shapes = {output.name: output.shape for output in session.get_outputs()}
    check_outputs(shapes, file)

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        found: np.ndarray = session.run([VECTORS], dict(zip(INPUTS, (ids, mask), strict=True)))[0]
        return found

    return run, shapes[VECTORS][1]


def run_graph(run: Run, tokens: TokenBatch) -> Tensor:
    """Vectors (B, D), float32, of tokens on the CPU."""
    return torch.from_numpy(run(tokens.input_ids.numpy(), tokens.attention_mask.numpy()))


def check_outputs(names: Any, file: Path) -> None:
    """Refuse a graph without the vectors.

    Raises:
        InputError: it is not a graph of sentrep.
    """
    if VECTORS not in names:
        raise InputError(f"{file}: it has no output {VECTORS}, so it is none of sentrep's; export the model anew")


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
def quiet() -> Iterator[None]:
    """Silence the exporter and the quantiser."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(former)
