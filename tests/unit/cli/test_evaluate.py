"""sentrep evaluate: suites on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sentrep.cli import main
from sentrep.evaluation import evaluate_transfer
from support import shared_path, write_pairs


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path) -> None:
    write_pairs("mine.csv", 30)


def test_a_file_of_pairs_is_scored_and_written(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sets", "[mine.csv]", "--output", "scores.json", "--device", "cpu"]
    assert main(["evaluate", model, *words]) == 0
    out = capsys.readouterr().out
    assert "Spearman" in out
    assert "mine" in out
    report = json.loads(Path("scores.json").read_text())
    assert (report["suite"], report["pooling"], report["precision"]) == ("sts", "mean", "fp32")
    (result,) = report["results"]
    assert (result["name"], result["counts"], [*result["scores"]]) == ("mine", {"pairs": 30}, ["spearman"])
    assert report["seconds"] > 0


def test_nothing_is_replaced_unasked(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("scores.json").write_text("mine")
    words = ["evaluate", model, "--sets", "mine.csv", "--output", "scores.json"]
    assert main(words) == 1
    assert "scores.json: is there already; name another output, or replace it" in capsys.readouterr().err
    assert Path("scores.json").read_text() == "mine"
    assert main([*words, "--overwrite", "true"]) == 0
    assert Path("scores.json").read_text() != "mine"


@pytest.mark.slow
def test_real_transfer_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two folds instead of ten, whose number is tested on small data."""
    monkeypatch.setitem(evaluate_transfer.__kwdefaults__, "folds", 2)
    model, folder = shared_path("models/all-MiniLM-L6-v2"), shared_path("data/senteval")
    words = ["--suite", "transfer", "--sts_folder", str(folder), "--sets", "[trec]", "--output", "scores.json"]
    assert main(["evaluate", str(model), *words]) == 0
    (result,) = json.loads(Path("scores.json").read_text())["results"]
    assert result["counts"] == {"train": 5452, "test": 500}
    assert 85 < result["scores"]["accuracy"] < 99
