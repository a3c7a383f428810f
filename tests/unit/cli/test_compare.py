"""``sentrep compare``: the runs that it takes and those that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentrep.cli import main
from support import table_rows
from unit.evaluation.test_comparison import write_run


def write_runs(*folders: str, better: str = "") -> None:
    """Finished runs, whose cosines follow the gold scores."""
    gold = np.linspace(0, 5, 60)
    for folder in folders:
        seed = int(Path(folder).name.removeprefix("seed-"))
        quality = 5.0 if better and better in folder else 0.2
        cosine = gold * quality + np.random.default_rng(seed).normal(0, 1, 60)
        write_run(Path(folder), seed, cosine, gold, Path(folder).parent.name)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_runs(*(f"runs/{name}/seed-{seed}" for name in ("plain", "good") for seed in range(5)), better="good")
    return tmp_path


def test_the_report_says_which_recipe_is_better(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "runs/plain", "runs/good"]) == 0
    printed = capsys.readouterr()
    assert "better" in printed.out
    assert printed.err == "report: comparisons/report.md\n"
    rows = table_rows(runs / "comparisons/report.md")[2:]
    assert [(row[0], row[1], row[-1]) for row in rows] == [("plain", "5", "baseline"), ("good", "5", "better")]
    for name in ("report.png", "report.svg", "report.tex", "report.csv"):
        assert (runs / "comparisons" / name).stat().st_size > 100
    assert main(["compare", "runs/plain", "runs/good", "--baseline", "runs/good", "--output", "other"]) == 0
    assert json.loads(Path("other/report.json").read_text())["rows"]["plain"]["verdict"] == "worse"


def test_single_runs_and_folders_of_one_name_are_told_apart(runs: Path) -> None:
    assert main(["compare", "runs/plain/seed-1", "runs/good/seed-1"]) == 0
    record = json.loads(Path("comparisons/report.json").read_text())
    assert list(record["rows"]) == ["plain-seed-1", "good-seed-1"]
    assert record["rows"]["good-seed-1"]["verdict"] == "looks better"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["runs/plain", "runs/gone"], 1, "runs/gone: no run lies here (run.json); sentrep fit writes one"),
        (["runs/plain", "runs/good", "--baseline", "runs/god"], 2, "--baseline runs/god is none of the runs; did you"),
        (["runs/plain", "runs/good", "--margin", "0"], 2, "margin"),
        (["runs"], 1, "are one recipe under one seed"),
        ([], 2, "arguments are required"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    words: list[str], status: int, says: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == status
    assert says in " ".join(capsys.readouterr().err.split())
    assert not Path("comparisons").exists()
