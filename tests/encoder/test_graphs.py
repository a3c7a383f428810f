"""Graphs for onnxruntime and OpenVINO: the vectors of torch, whatever the model is made of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.cli import main
from sentrep.encoder import (
    ConvolutionalPooling,
    Dense,
    Flow,
    GraphEncoder,
    Normalize,
    Prompt,
    fit_whitening,
    write_graph,
)
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from support import PAIRS, tiny_encoder, toy_sentences

SENTENCES = [*toy_sentences(30), "", "a bird", "a bird sings " * 40]
TEMPLATE = '"[X]" means [MASK].'

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "cls": ("bert", {}),
    "mean": ("roberta", {"modules": [Normalize()]}),
    "max": ("distilbert", {"modules": [Dense("tanh", 8)]}),
    "last": ("mpnet", {}),
    "mean_first_last": ("electra", {"modules": [Dense(), Normalize()]}),
    "mean_embedding_last": ("bert", {"max_seq_length": 20}),
    "mean_last_two": ("albert", {"modules": [Flow(steps=2)]}),
    "pooler": ("bert", {}),
    "mask": ("modernbert", {"prompt": TEMPLATE}),
    "mask, template off": ("roberta", {"prompt": Prompt(TEMPLATE, subtract=True), "modules": [Normalize()]}),
    "cls, convolutions": ("bert", {"modules": [ConvolutionalPooling((1, 3)), Dense()]}),
}
"""Every pooling, family and module, by the pooling's name."""


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray((one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a tiny model."""
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*sentence-transformers has no module")
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_gives_the_vectors_of_torch(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    family, arguments = MODELS[name]
    encoder = tiny_encoder(family, pooling=name.split(",")[0], **arguments).eval()
    expected = encoder.encode(SENTENCES)
    encoder.save_pretrained(tmp_path)
    write_graph(tmp_path, "onnx")
    graph = GraphEncoder(tmp_path, "onnx")
    atol = 1e-4 if encoder.subtract_template else 1e-5  # of a small difference that is scaled to length 1
    np.testing.assert_allclose(graph.encode(SENTENCES), expected, atol=atol)
    np.testing.assert_allclose(graph.encode(SENTENCES[0]), expected[0], atol=atol)
    assert graph.embedding_dim == encoder.embedding_dim
    assert graph.normalizes == encoder.normalizes
    openvino = pytest.importorskip("openvino")
    model = openvino.Core().read_model(tmp_path / "onnx" / "model.onnx")
    (tmp_path / "openvino").mkdir()
    openvino.save_model(model, tmp_path / "openvino" / "openvino_model.xml", compress_to_fp16=False)
    np.testing.assert_allclose(GraphEncoder(tmp_path, "openvino").encode(SENTENCES), expected, atol=atol)


@pytest.mark.slow
def test_int8_from_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    expected = SentenceEncoder.from_pretrained(folder).encode(SENTENCES)
    text, pairs = folder.parent / "text.txt", folder.parent / "pairs.csv"
    text.write_text("\n".join(toy_sentences(500)))
    pairs.write_text("\n".join(["sentence1,sentence2,score", *(f"{a},{b},{score}" for a, b, score in PAIRS)]))
    asked = ["--format", "onnx", "--quantize", "int8", "--calibration", str(text)]
    for words in ([], ["--sts", str(pairs)]):
        target = folder.parent / f"graph{len(words)}"
        assert main(["export", str(folder), "--output", str(target), *asked, *words]) == 0
        said = capsys.readouterr().out
        found = re.search(r"cosine to torch in float32: mean (\d\.\d{5}), min (\d\.\d{5}) \(", said)
        assert found is not None
        assert 1 >= float(found[1]) >= float(found[2]) > 0.99
        assert ("pairs: " in said and " in torch, " in said) == bool(words)
        graph = GraphEncoder(target, "onnx")
        assert cosine(graph.encode(SENTENCES), expected).min() > 0.99
        assert np.abs(graph.encode(SENTENCES) - expected).max() > 1e-5  # it is in 8 bits
    assert fingerprint(graph) != fingerprint(SentenceEncoder.from_pretrained(folder))
    assert main(["export", str(folder), "--output", str(folder.parent / "bad"), *asked, "--least_cosine", "1"]) == 1
    assert "nothing is written; leave --quantize out, or lower --least_cosine 1" in capsys.readouterr().err
    assert not (folder.parent / "bad").exists()
    # what sentence-transformers' own backend reads: the tokens' states, which its own modules pool
    tokens = graph.tokenize.tokenizer(SENTENCES[:3], padding=True, return_tensors="np")
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    states, vectors = onnxruntime.InferenceSession(target / "onnx" / "model.onnx").run(
        ["last_hidden_state", "sentence_embedding"], inputs
    )
    mask = inputs["attention_mask"][..., None]
    np.testing.assert_allclose((states * mask).sum(1) / mask.sum(1), vectors, atol=1e-5)
    # commands, and a model in its place, which takes its graph away
    out = folder.parent / "out.npy"
    assert main(["encode", str(target), "--backend", "onnx", "--input", str(text), "--output", str(out)]) == 0
    np.testing.assert_allclose(np.load(out), graph.encode(toy_sentences(500)), atol=1e-6)
    report = folder.parent / "report.json"
    words = ["--sets", str(pairs), "--backend", "onnx", "--output", str(report)]
    assert main(["evaluate", str(target), *words]) == 0
    assert json.loads(report.read_text())["precision"] == "graph (onnx)"
    tiny_encoder().save_pretrained(target)
    assert not list(target.glob("onnx/*"))


@pytest.mark.slow
def test_int8_for_openvino(folder: Path) -> None:
    pytest.importorskip("openvino")
    pytest.importorskip("onnxscript")
    expected = SentenceEncoder.from_pretrained(folder).encode(SENTENCES)
    write_graph(folder, "openvino", "int8", SENTENCES)
    assert cosine(GraphEncoder(folder, "openvino").encode(SENTENCES), expected).min() > 0.99


def test_what_is_missing_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no graph of sentrep .*export MODEL --output FOLDER --format onnx"):
        GraphEncoder(folder, "onnx")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_text("no graph")
    pytest.importorskip("onnxruntime")
    with pytest.raises(InputError, match="this graph cannot be read"):
        GraphEncoder(folder, "onnx")


def test_a_graph_takes_nothing_that_is_fixed_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    graph: Any = object.__new__(GraphEncoder)
    graph.embedding_dim = 8
    with pytest.raises(InputError, match="fit it before"):
        fit_whitening(graph, SENTENCES, 2)
    for words, status, message in (
        ("export m --output g --quantize int8", 2, "name its --format"),
        ("export m --output g --format onnx --quantize int8", 2, "name 500 sentences or more with --calibration"),
        ("encode m --output x.npy --input none.txt --backend onnx", 1, "none.txt"),
        ("evaluate m --sets none.csv --backend tflite", 2, "tflite"),
    ):
        assert main(words.split()) == status
        assert message in capsys.readouterr().err
