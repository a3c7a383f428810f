"""sentrep evaluate: suites on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sentrep.cli import evaluate, main
from sentrep.data import TRANSFER_NAMES, LabelledTexts, load_transfer
from sentrep.evaluation import DEFAULT_SUITE, evaluate_transfer
from support import shared_path, write_pairs


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path) -> None:
    write_pairs("mine.csv", 30)


def test_a_file_of_pairs_is_scored_and_written(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.csv").write_text(Path("mine.csv").read_text().replace("score", "gold"))
    columns = "[sentence1,sentence2,gold]"
    words = ["--sets", "[mine.csv]", "--columns", columns, "--output", "scores.json", "--precision", "bf16"]
    assert main(["evaluate", model, *words]) == 0
    out = capsys.readouterr().out
    assert "Spearman" in out
    assert "mine" in out
    report = json.loads(Path("scores.json").read_text())
    assert (report["suite"], report["pooling"], report["precision"]) == ("sts", "mean", "bf16")
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


def test_the_default_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentrep.data.sets.sts.load_all_sts", lambda sets, folder: sets)
    monkeypatch.setattr("sentrep.data.load_transfer", lambda name, folder: name)
    assert evaluate._load("sts", None, "x", None)[0] == list(DEFAULT_SUITE)
    assert evaluate._load("sts", None, None, None)[0] == [name for name in DEFAULT_SUITE if name != "sickr"]
    assert evaluate._load("transfer", None, "x", None)[0] == list(TRANSFER_NAMES)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--sets", "mine.csv", "./mine.csv"], "mine are listed twice"),
        (["--sets", "[]"], "no set to score"),
        (["--suite", "transfer", "--sets", "[]"], "no set to score"),
        (["--mteb", "[]"], "no set to score"),
        (["--suite", "transfer", "--columns", "[a,b]"], "--columns belong to files of sts"),
        (["--mteb", "STS12", "--sets", "mine.csv"], "leave out --suite and --sets"),
        (["--suite", "transfer", "--sets", "mr"], "no MR in it for mr; give the folder that contains MR"),
    ],
)
def test_sets_that_cannot_be_scored_are_refused(
    words: list[str], says: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", model, *words]) != 0
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_real_transfer_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of the training text, in two folds instead of ten."""
    monkeypatch.setitem(evaluate_transfer.__kwdefaults__, "folds", 2)
    whole = load_transfer("trec", shared_path("data/senteval"))
    train = LabelledTexts(whole.splits["train"].texts[:545], whole.splits["train"].labels[:545])
    part = replace(whole, splits={**whole.splits, "train": train})
    monkeypatch.setattr("sentrep.data.load_transfer", lambda name, folder: part)
    model, folder = shared_path("models/all-MiniLM-L6-v2"), shared_path("data/senteval")
    words = ["--suite", "transfer", "--sts_folder", str(folder), "--sets", "[trec]", "--output", "scores.json"]
    assert main(["evaluate", str(model), *words]) == 0
    (result,) = json.loads(Path("scores.json").read_text())["results"]
    assert result["counts"] == {"train": 545, "test": 500}
    assert 75 < result["scores"]["accuracy"] < 95
