"""``sentrep data check``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from sentrep.cli import main


@pytest.fixture(autouse=True)
def _workplace(in_folder: Path) -> None:
    Path("train.txt").write_text("A man plays the guitar.\nA man plays the guitar!\nNothing alike at all\n\n")
    Path("more.txt").write_text("=SUM of the parts\n")
    Path("pairs.csv").write_text("sentence1,sentence2,score\na man  PLAYS the guitar.,A man plays the guitars.,1\n")
    Path("plain.txt").write_text("=sum of the parts\nquite other words\n")


WORDS = ["data", "check", "--train", "train.txt", "more.txt", "--against", "pairs.csv", "plain.txt"]


def test_table_report_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--output", "report.json", "--list", "list.csv"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["pairs", "2", "1", "1", "100.00%"] in lines
    assert ["plain", "2", "1", "0", "50.00%"] in lines
    report = json.loads(Path("report.json").read_text())
    assert (report["sentences"], report["repeated"], report["threshold"]) == (4, 0, 0.8)
    assert report["sets"][0] == {"name": "pairs", "sentences": 2, "exact": 1, "near": 1, "share": 1.0}
    assert report["seconds"] > 0
    rows = list(csv.DictReader(Path("list.csv").read_text().splitlines()))
    assert {row["kind"] for row in rows} == {"exact", "near"}
    (formula,) = [row for row in rows if row["set"] == "plain"]
    assert (formula["evaluation sentence"], formula["training row"]) == ("'=sum of the parts", "5")


def test_nothing_is_replaced_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    for option, name in (("--output", "report.md"), ("--list", "list.csv")):
        Path(name).write_text("mine")
        assert main([*WORDS, option, name]) == 1
        assert f"{name}: is there already; name another output, or replace it" in capsys.readouterr().err
        assert Path(name).read_text() == "mine"
        assert main([*WORDS, option, name, "--overwrite", "true"]) == 0
        assert Path(name).read_text() != "mine"


@pytest.mark.parametrize(("share", "status"), [("1", 0), ("0.99", 1), ("0", 1)])
def test_fail_above_sets_the_status(share: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--fail-above", share]) == status
    assert ("pairs: 100.00% is in the training text, more than" in capsys.readouterr().err) == bool(status)


def test_other_formats_and_options() -> None:
    words = ["--columns", "[sentence2]", "--against_columns", "[sentence1]", "--threshold", "0.5"]
    words = ["data", "check", "--train", "[pairs.csv]", "--against", "[pairs.csv]", *words]
    assert main([*words, "--output", "report.md"]) == 0
    assert "| pairs | 1 | 0 | 1 | 100.00% |" in Path("report.md").read_text()
    assert main([*words, "--output", "report.csv"]) == 0
    assert Path("report.csv").read_text() == "set,sentences,exact,near,share\npairs,1,0,1,1.0\n"


def test_help_names_the_commands_of_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    assert "  data check     Count the sentences" in capsys.readouterr().out
