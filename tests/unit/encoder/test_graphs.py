"""Graphs for onnxruntime: torch's vectors, for every pooling, family and module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.cli import main
from sentrep.encoder import ConvolutionalPooling, Dense, Flow, Normalize, Prompt, graph, write_graph
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from support import tiny_encoder, toy_sentences

SENTENCES = [*toy_sentences(30), "", "a bird", "a bird sings " * 40]
TEMPLATE = '"[X]" means [MASK].'

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "mean": ("roberta", {"modules": [Normalize()]}),
    "max": ("distilbert", {"modules": [Dense("tanh", 8)]}),
    "last": ("mpnet", {}),
    "mean_first_last": ("electra", {"modules": [Dense(), Normalize()]}),
    "mean_last_two": ("albert", {"modules": [Flow(steps=2)]}),
    "pooler": ("bert", {"max_seq_length": 20}),
    "mask": ("modernbert", {"prompt": TEMPLATE}),
    "mask, template off": ("roberta", {"prompt": Prompt(TEMPLATE, subtract=True), "modules": [Normalize()]}),
    "cls, convolutions": ("bert", {"modules": [ConvolutionalPooling((1, 3)), Dense()]}),
}
"""Every kind of pooling, family and module, by the pooling's name."""


@pytest.fixture
def onnx() -> None:
    """Skips where the extra is missing."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*sentence-transformers has no module")
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_gives_the_vectors_of_torch(name: str, tmp_path: Path, onnx: None) -> None:
    family, arguments = MODELS[name]
    encoder = tiny_encoder(family, pooling=name.split(",")[0], **arguments).eval()
    # without a text the difference to the template is only rounding, which Normalize scales to length 1
    sentences = [sentence for sentence in SENTENCES if sentence or not encoder.subtract_template]
    expected = encoder.encode(sentences)
    write_graph(encoder, tmp_path)
    found = SentenceEncoder.from_pretrained(tmp_path, backend="onnx")
    atol = 1e-4 if encoder.subtract_template else 1e-5  # of a small difference that is scaled to length 1
    np.testing.assert_allclose(found.encode(sentences), expected, atol=atol)
    np.testing.assert_allclose(found.encode(sentences[0]), expected[0], atol=atol)
    assert found.embedding_dim == encoder.embedding_dim


@pytest.mark.slow
def test_a_graph_from_the_command_line(tmp_path: Path, onnx: None) -> None:
    import onnxruntime

    model, target = tmp_path / "model", tmp_path / "graph"
    tiny_encoder(pooling="mean").save_pretrained(model)
    assert main(["export", str(model), "--output", str(target), "--format", "onnx"]) == 0
    found, plain = SentenceEncoder.from_pretrained(target, backend="onnx"), SentenceEncoder.from_pretrained(target)
    assert fingerprint(found) != fingerprint(plain)
    text, out = tmp_path / "text.txt", tmp_path / "out.npy"
    text.write_text("\n".join(toy_sentences(50)))
    assert main(["encode", str(target), "--backend", "onnx", "--input", str(text), "--output", str(out)]) == 0
    np.testing.assert_allclose(np.load(out), plain.encode(toy_sentences(50)), atol=1e-5)
    # sentence-transformers' own backend reads the tokens' states, which its own modules pool
    tokens = found.tokenize.tokenizer(SENTENCES[:3], padding=True, return_tensors="np")
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    states, vectors = onnxruntime.InferenceSession(target / "onnx" / "model.onnx").run(
        ["last_hidden_state", "sentence_embedding"], inputs
    )
    mask = inputs["attention_mask"][..., None]
    np.testing.assert_allclose((states * mask).sum(1) / mask.sum(1), vectors, atol=1e-5)
    tiny_encoder().save_pretrained(target)  # another model: its graph would be wrong
    assert not list(target.glob("onnx/*"))


@pytest.mark.slow
def test_a_graph_with_other_vectors_is_not_written(tmp_path: Path, onnx: None, monkeypatch: pytest.MonkeyPatch) -> None:
    run = graph._Session.run
    monkeypatch.setattr(graph._Session, "run", lambda *arguments: run(*arguments) * 1.0001)
    with pytest.raises(InputError, match=r"the graph's vectors differ from torch's by 1e-04, so no graph is written"):
        write_graph(tiny_encoder(), tmp_path)
    assert not (tmp_path / "onnx").exists()
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_missing_or_damaged_graph_is_one_sentence(tmp_path: Path) -> None:
    tiny_encoder(pooling="mean").save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"no graph in it; .*export MODEL --output FOLDER --format onnx"):
        SentenceEncoder.from_pretrained(tmp_path, backend="onnx")
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_text("no graph")
    pytest.importorskip("onnxruntime")
    with pytest.raises(InputError, match="this graph cannot be read"):
        SentenceEncoder.from_pretrained(tmp_path, backend="onnx")


def test_a_graph_takes_no_argument_that_would_change_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load: Any = SentenceEncoder.from_pretrained
    with pytest.raises(InputError, match=r"the graph of a folder, which is fixed; leave out revision, pooling$"):
        load("model", backend="onnx", revision="main", pooling="cls")
    text = tmp_path / "text.txt"
    text.write_text("a bird sings\n")
    words = ["encode", "model", "--input", str(text), "--output", str(tmp_path / "x.npy"), "--backend"]
    assert main([*words, "onnx", "--device", "cuda"]) == 1
    assert "leave out --pooling and --device" in capsys.readouterr().err
    assert main([*words, "tflite"]) == 2
    assert "tflite" in capsys.readouterr().err
