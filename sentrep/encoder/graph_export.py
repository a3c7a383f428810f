"""A model folder's encoder as one graph, beside its other files: from token ids to the vectors of `encode`."""

from __future__ import annotations

import functools
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sentrep.encoder import encode as encoding
from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.graph_encoder import INPUTS, STATES, VECTORS, Backend
from sentrep.encoder.loading.st_folders import GRAPH_FILES, missing_for
from sentrep.errors import InputError, first_line
from sentrep.extras import require
from sentrep.io.files import atomic_folder
from sentrep.io.paths import writing
from sentrep.types import TokenBatch

Quantize = Literal["int8"]

CALIBRATION = 512
"""Sentences that are read of a calibration text."""


def write_graph(
    folder: Path,
    backend: Backend,
    quantize: Quantize | None = None,
    calibration: Sequence[str] = (),
    trust_remote_code: bool = False,
) -> None:
    """Write the graph of a model folder into it, where sentence-transformers looks for one.

    Args:
        folder: as `SentenceEncoder.save_pretrained` writes it.
        backend: which format.
        quantize: ``int8``: most products with weights in 8 bits, the weights by output column, all else in float32.
        calibration: sentences, of which the first 512 scale the activations for OpenVINO once and for all; onnxruntime
            scales them in each pass.
        trust_remote_code: whether code that the folder names may run.

    Raises:
        InputError: a package is missing, or the model cannot be written so.
    """
    check_graph(backend, quantize, bool(calibration))
    with writing(folder), atomic_folder(folder) as place, tempfile.TemporaryDirectory() as temporary, _quiet():
        plain = Path(temporary) / "plain.onnx"
        encoder = SentenceEncoder.from_pretrained(
            folder, trust_remote_code=trust_remote_code, compute=Compute(layout="padded", products="torch")
        )
        _export(encoder, plain)
        target = place / GRAPH_FILES[backend]
        target.parent.mkdir()
        graph = plain
        if quantize is not None:
            graph = Path(temporary) / "quantized.onnx"
            _quantize(plain, graph, encoder, calibration if backend == "openvino" else ())
        if backend == "onnx":
            target.write_bytes(graph.read_bytes())
        else:
            import openvino

            # reads the graph itself: its converter would report the conversion to its makers
            openvino.save_model(openvino.Core().read_model(graph), target, compress_to_fp16=False)


def check_graph(backend: str, quantize: str | None, calibrated: bool) -> None:
    """Refuse what `write_graph` cannot do, before the model is read.

    Raises:
        InputError: names the missing part.
    """
    require(f"backend {backend}", backend, "onnx", "onnxscript", "onnxruntime", *{"openvino"} & {backend})
    if backend == "openvino" and quantize is not None and not calibrated:
        raise InputError("int8 for openvino scales activations beforehand: name a file of sentences with --calibration")


class _Graph(nn.Module):
    """Token ids and mask (B, L) → [states (B, L, H),] vectors (B, D)."""

    def __init__(self, encoder: SentenceEncoder, states: bool) -> None:
        super().__init__()
        self.encoder, self.states = encoder, states

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        tokens = TokenBatch(input_ids, attention_mask)
        if not self.states:
            return self.encoder.embed(tokens).float()
        output = self.encoder(tokens)
        return output.token_states, output.embedding.float()


def _export(encoder: SentenceEncoder, file: Path) -> None:
    """Write the graph for any number of sentences of any length."""
    graph = _Graph(encoder, states=missing_for(encoder.settings) is None).eval()
    ids = encoder.tokenize
    tokens = encoding.pad([[*ids.prefix, *[ids.suffix[-1]] * n, *ids.suffix] for n in (3, 5)], ids.pad_token_id)
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=ids.limit)}
    try:
        program: Any = torch.onnx.export(
            graph, (tokens.input_ids, tokens.attention_mask), dynamo=True, verbose=False,
            input_names=INPUTS, output_names=[STATES, VECTORS] if graph.states else [VECTORS],
            dynamic_shapes=(sizes, sizes),
        )  # fmt: skip
        program.save(file)
    except Exception as error:  # of torch's exporter, which has a page for each
        raise InputError(f"this model cannot be written as a graph: {first_line(error)}") from error
    if any(isinstance(size, int) for value in program.model.graph.inputs for size in value.shape):
        raise InputError("this model cannot be written as a graph: its code computes with a fixed number of tokens")


def _quantize(plain: Path, target: Path, encoder: SentenceEncoder, calibration: Sequence[str]) -> None:
    """The same graph with `_products` in 8 bits, the numbers between them in float32."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    how: dict[str, Any] = {"op_types_to_quantize": ["MatMul"], "per_channel": True, "weight_type": QuantType.QInt8}
    how["nodes_to_quantize"] = _products(plain, encoder.backbone.config.num_hidden_layers)
    how["extra_options"] = {"MatMulConstBOnly": True, "OpTypesToExcludeOutputQuantization": ["MatMul"]}
    if calibration:
        ids, _ = encoder.tokenize(calibration[:CALIBRATION], encoder.max_seq_length)
        batches = (dict(zip(INPUTS, (np.array([row]), np.ones((1, len(row)), int)), strict=True)) for row in ids)
        reader: Any = SimpleNamespace(get_next=functools.partial(next, batches, None))  # the only method that is called
        quantize_static(plain, target, reader, quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8, **how)
    else:
        quantize_dynamic(plain, target, **how)


def _products(graph: Path, layers: int) -> list[str]:
    """Names of the products with weights that are computed in 8 bits.

    Two kinds stay in float32: products that narrow their input, the second of each feed-forward block, because a few
    large numbers after the activation take all of the scale; and the last layer, after which nothing averages.
    """
    import onnx

    model = onnx.load(graph, load_external_data=False).graph
    shapes = {weights.name: weights.dims for weights in model.initializer}
    weighted = [node for node in model.node if node.op_type == "MatMul" and node.input[1] in shapes]
    bearing = [node.name for node in weighted if shapes[node.input[1]][0] <= shapes[node.input[1]][1]]
    return bearing[: -(len(bearing) // layers)] or bearing


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter and the quantiser."""
    former = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(former)
