"""`encode` by a graph that is built once: torch's vectors, for the present weights, from the pass on that earns it."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sentrep import SentenceEncoder
from sentrep.encoder import Compute, Normalize, cached_graph
from sentrep.encoder.cached_graph import OPEN_AFTER
from sentrep.encoder.modules import chain
from sentrep.errors import InputError
from support import tiny_encoder, toy_sentences

SENTENCES = toy_sentences(20)
BUILD_AFTER = 30
Load = Callable[..., SentenceEncoder]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a tiny model, whose graphs are kept in an empty cache."""
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    return lambda backend="auto", **how: SentenceEncoder.from_pretrained(
        tmp_path / "model", compute=Compute(backend=backend), **how
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of the calls: graphs are built, opened and run. A graph is a copy of the encoder here.

    A test that appends ``wrong`` gets wrong vectors.
    """
    found: list[str] = []
    graphs: dict[str, Any] = {}

    def save(encoder: Any, file: Path) -> None:
        found.append("build")
        graphs[file.name.split(".")[1]] = copy.deepcopy(encoder)
        file.write_text("graph")

    def open_graph(file: Path) -> tuple[Any, int]:
        found.append("open")
        (encoder,) = [graph for name, graph in graphs.items() if file.name.startswith(name)]

        def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
            found.append("run")
            vectors = encoder.embed(cached_graph.TokenBatch(torch.from_numpy(ids), torch.from_numpy(mask)))
            return np.asarray(vectors) + 0.01 * found.count("wrong")

        return run, encoder.embedding_dim

    monkeypatch.setattr(cached_graph, "save_graph", save)
    monkeypatch.setattr(cached_graph, "open_graph", open_graph)
    monkeypatch.setattr(cached_graph, "_installed", lambda: True)
    monkeypatch.setattr(cached_graph, "BUILD_AFTER", BUILD_AFTER)
    monkeypatch.setattr(cached_graph, "require", lambda *words: None)
    return found


def encode(encoder: SentenceEncoder, times: int = 1) -> np.ndarray:
    for _ in range(times):
        vectors = encoder.encode(SENTENCES[:2], show_progress_bar=False)
    return np.asarray(vectors)


def test_a_graph_is_built_where_it_pays_and_read_where_it_lies(load: Load, calls: list[str], caplog: Any) -> None:
    encoder = load()
    encode(encoder, BUILD_AFTER)
    assert calls == []
    expected = encode(load("torch"), OPEN_AFTER + 1)
    with caplog.at_level(logging.INFO, "sentrep"):
        np.testing.assert_allclose(encode(encoder), expected, atol=1e-6)
    assert calls == ["build", "open", "run"]
    assert [record.levelname for record in caplog.records if record.name == "sentrep"] == ["WARNING", "INFO"]
    assert "building an ONNX graph" in caplog.text
    assert "onnxruntime computes from now on" in caplog.text
    other = load()
    encode(other, OPEN_AFTER)
    assert calls.count("open") == 1
    encode(other, 2)
    assert calls == ["build", "open", "run", "open", "run", "run"]
    assert calls.count("build") == 1


def test_a_change_of_weights_or_mode_leaves_the_graph(load: Load, calls: list[str]) -> None:
    encoder, plain = load("onnx"), load("torch")
    encode(encoder)
    for which in (encoder, plain):
        with torch.no_grad():
            which.backbone.get_input_embeddings().get_parameter("weight")[3:].mul_(2.0)
    np.testing.assert_allclose(encode(encoder), encode(plain), atol=1e-6)
    assert calls.count("build") == 2  # another one, for the new weights
    encoder.set_modules(chain([Normalize()], encoder.hidden_size, 0.02))
    np.testing.assert_allclose(np.linalg.norm(encode(encoder), axis=1), 1, atol=1e-6)
    encoder.train()
    calls.clear()
    encode(encoder)
    encode(encoder.eval())
    encode(tiny_encoder().eval(), OPEN_AFTER + 2)  # not loaded: it may be in training
    assert calls == []


def test_scores_bf16_and_float64_are_torchs(load: Load, calls: list[str]) -> None:
    encoder = load("onnx")
    encoder.pairwise_cosine(SENTENCES, SENTENCES)
    with torch.autocast("cpu", torch.bfloat16):
        encode(encoder)
    encode(encoder.double())
    encode(load("torch"), BUILD_AFTER + 1)
    assert calls == []


def test_a_wrong_graph_is_not_used(load: Load, calls: list[str], caplog: Any) -> None:
    calls.append("wrong")
    encoder = load("onnx")
    np.testing.assert_array_equal(encode(encoder, 3), encode(load("torch")))
    assert calls == ["wrong", "build", "open", "run"]
    assert "differs from torch by" in caplog.text


def test_a_model_without_a_graph_stays_with_torch(
    load: Load, calls: list[str], caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise InputError("this model cannot be written as a graph")

    monkeypatch.setattr(cached_graph, "save_graph", fail)
    monkeypatch.setattr(cached_graph, "BUILD_AFTER", OPEN_AFTER)
    np.testing.assert_array_equal(encode(load(), OPEN_AFTER + 3), encode(load("torch")))
    assert caplog.text.count("cannot be written as a graph; torch computes on") == 1
    with pytest.raises(InputError, match="cannot be written as a graph"):
        encode(load("onnx"))


def test_copies_begin_anew(load: Load, calls: list[str]) -> None:
    encoder = load("onnx")
    encode(encoder)
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_allclose(encode(other), encode(encoder), atol=1e-6)
    assert calls.count("build") == 1
    assert calls.count("open") == 3


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_onnxruntime_gives_the_vectors_of_torch(pooling: str, load: Load) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    encoder, plain = load("onnx", pooling=pooling), load("torch", pooling=pooling)
    for some in (SENTENCES, SENTENCES[:1], ["", "a bird sings " * 40]):
        np.testing.assert_allclose(encoder.encode(some), plain.encode(some), atol=1e-5)
    assert encoder._graph is not None
    assert "run_graph" in repr(encoder._graph._embed)
