"""encode, evaluate and export."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.cli import encode, main
from sentrep.encoder import fit_whitening
from sentrep.errors import InputError
from support import toy_sentences, write_pairs

LINES = ["the first line", "", "a third line that is longer", "four"]


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "BLOCK", 3)  # several blocks, the last one short
    Path("lines.txt").write_text("\n".join(LINES) + "\n")


def expected(model: str, normalize: bool = False) -> np.ndarray:
    return SentenceEncoder.from_pretrained(model).encode(LINES, normalize_embeddings=normalize)  # type: ignore[return-value]


def test_export_and_its_refusal(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", model, "--output", "exported"]) == 0
    assert "exported: pooling mean, 32 dimensions" in capsys.readouterr().out
    assert main(["encode", "exported", "--input", "lines.txt", "--output", "out.npy"]) == 0
    np.testing.assert_allclose(np.load("out.npy"), expected(model), atol=1e-6)
    assert main(["export", model, "--output", "exported"]) == 1
    assert "exported: is there already; name another output, or replace it: --overwrite true" in capsys.readouterr().err
    assert main(["export", model, "--output", "exported", "--overwrite", "true"]) == 0


def test_an_export_that_ends_before_its_graph_is_there_leaves_nothing(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So the folder never looks complete without it, and the same command can be given again."""
    command = ["export", model, "--output", "exported", "--format", "onnx"]
    monkeypatch.setattr("sentrep.encoder.graph.require_export", lambda: None)
    monkeypatch.setattr("sentrep.encoder.write_graph", lambda *arguments: refuse())
    for _ in range(2):
        assert main(command) == 1
        assert "no such operator" in capsys.readouterr().err
        assert [path.name for path in Path().iterdir()] == ["lines.txt"]
    Path("exported/onnx").mkdir(parents=True)
    Path("exported/onnx/model.onnx").write_text("of another model")
    Path("exported/mine.txt").write_text("mine")
    assert main([*command, "--overwrite", "true"]) == 1
    assert {path.name for path in Path("exported").iterdir()} == {"onnx", "mine.txt"}
    assert main(["export", model, "--output", "exported", "--overwrite", "true"]) == 0
    assert not Path("exported/onnx/model.onnx").exists()
    assert Path("exported/mine.txt").read_text() == "mine"


def refuse() -> None:
    raise InputError("no such operator")


def test_export_whitened(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("corpus.txt").write_text("\n".join(toy_sentences(50)) + "\n")
    assert main(["export", model, "--output", "whitened", "--whiten", "corpus.txt", "--whiten_dim", "5"]) == 0
    assert "whitened: pooling mean, 5 dimensions" in capsys.readouterr().out
    found = SentenceEncoder.from_pretrained("whitened").encode(LINES)
    whitened = fit_whitening(SentenceEncoder.from_pretrained(model), toy_sentences(50), 5)
    np.testing.assert_allclose(found, whitened.encode(LINES), atol=1e-5)
    assert main(["export", model, "--output", "new", "--whiten_dim", "5"]) == 2
    assert "--whiten" in capsys.readouterr().err


def test_half_precision_gives_nearly_the_same(model: str) -> None:
    write_pairs("pairs.csv", 10)
    for precision in ("fp32", "bf16"):
        words = [model, "--precision", precision, "--device", "cpu"]
        assert main(["encode", *words, "--input", "lines.txt", "--output", f"{precision}.npy"]) == 0
        words = [model, "--precision", precision, "--device", "cpu"]
        assert main(["evaluate", *words, "--sets", "[pairs.csv]", "--output", f"{precision}.json"]) == 0
        assert json.loads(Path(f"{precision}.json").read_text())["precision"] == precision
    full, half = np.load("fp32.npy"), np.load("bf16.npy")
    assert half.dtype == np.float32
    assert 0 < np.abs(full - half).max() < 0.05


def test_encode_a_column(model: str) -> None:
    Path("table.csv").write_text("id,words\n" + "".join(f"{i},{line}\n" for i, line in enumerate(LINES)))
    words = ["--input", "table.csv", "--column", "words", "--output", "out.npy", "--normalize", "true"]
    assert main(["encode", model, *words]) == 0
    np.testing.assert_allclose(np.load("out.npy"), expected(model, normalize=True), atol=1e-6)


def test_a_failing_run_leaves_the_old_file(model: str) -> None:
    Path("out.npy").write_bytes(b"old")
    Path("bytes.txt").write_bytes(b"1\n2\n3\n4\nna\xefve\n")
    assert main(["encode", model, "--input", "bytes.txt", "--output", "out.npy", "--overwrite", "true"]) == 1
    assert Path("out.npy").read_bytes() == b"old"
