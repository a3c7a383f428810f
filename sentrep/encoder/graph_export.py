"""A model folder's encoder as one graph, beside its other files: from token ids to the vectors of `encode`."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from sentrep.encoder.compute.plan import Compute
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.graph import INPUTS, quiet, save_graph
from sentrep.encoder.graph_encoder import Backend
from sentrep.encoder.loading.st_folders import GRAPH_FILES, missing_for
from sentrep.errors import InputError
from sentrep.extras import require
from sentrep.io.files import atomic_folder
from sentrep.io.paths import writing

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
    with writing(folder), atomic_folder(folder) as place, tempfile.TemporaryDirectory() as temporary, quiet():
        plain = Path(temporary) / "plain.onnx"
        encoder = SentenceEncoder.from_pretrained(
            folder,
            trust_remote_code=trust_remote_code,
            compute=Compute(layout="padded", backend="torch"),
        )
        save_graph(encoder, plain, states=missing_for(encoder.settings) is None)
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
