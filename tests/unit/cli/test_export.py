"""``sentrep export``: folders that are whole or not there, with a whitening, with a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.cli import main
from sentrep.encoder import fit_whitening
from sentrep.errors import InputError
from support import toy_sentences

LINES = ["the first line", "", "a third line that is longer", "four"]


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path) -> None:
    """The current folder is empty."""


def test_export_and_its_refusal(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", model, "--output", "exported"]) == 0
    assert "exported: pooling mean, 32 dimensions" in capsys.readouterr().out
    found, expected = (SentenceEncoder.from_pretrained(folder).encode(LINES) for folder in ("exported", model))
    np.testing.assert_allclose(found, expected, atol=1e-6)
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
        assert not [*Path().iterdir()]
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
