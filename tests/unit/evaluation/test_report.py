"""The table and the files of an evaluation."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from sentrep.data import TRANSFER_NAMES
from sentrep.evaluation import SENTEVAL_SETS, Evaluation, TaskResult
from support import table_rows, tiny_encoder


def results(names: tuple[str, ...]) -> list[TaskResult]:
    return [
        TaskResult(
            name, "SentEval (all)", {"pairs": 1000 + i}, {"spearman": 70.0 + i, "pearson": 60.0 + i}, "",
            {"news": (400, 71.25), "one": (1, None)},
        )
        for i, name in enumerate(names)
    ]  # fmt: skip


def scored(tasks: list[TaskResult], *notes: str) -> Evaluation:
    return Evaluation("m", "f", "cls", None, None, {}, 1.0, tasks, notes=[*notes])


def printed(names: tuple[str, ...], detail: bool = False) -> list[list[str]]:
    out = io.StringIO()
    scored(results(names)).print(detail, Console(file=out, width=80))
    return [line.split() for line in out.getvalue().splitlines() if line.strip()]


SEVEN = SENTEVAL_SETS


@pytest.mark.parametrize(
    ("names", "detail", "wanted", "averages"),
    [
        (SEVEN, False, ["set pairs protocol Spearman", "STS-B 1005 SentEval (all) 75.00"],
         ["Avg. the seven SentEval sets 73.00"]),
        ((*SEVEN, "sickr-all"), False, ["SICK-R 1006 SentEval (all) 76.00", "SICK-R (all) 1007 SentEval (all) 77.00"],
         ["Avg. the seven SentEval sets 73.00", "Avg. MTEB: SICK-R with all pairs 73.14"]),
        ((*SEVEN, "sickr-all"), True, ["SICK-R (all) 1007 SentEval (all) 77.00 67.00"], None),
        ((*SEVEN[:-1], "sickr-all"), False, [], ["Avg. MTEB: SICK-R with all pairs 73.00"]),
        (("stsb", "sickr-dev"), False, ["mean of 2 sets 70.50"], []),
        (("stsb",), False, ["STS-B 1000 SentEval (all) 70.00"], []),
        (("sts12",), True, ["STS12 1000 SentEval (all) 70.00 60.00", "news 400 sub-set 71.25",
                           "one 1 sub-set —"], None),
    ],
)  # fmt: skip
def test_the_table_has_the_sets_and_the_averages_of_both_protocols(
    names: tuple[str, ...], detail: bool, wanted: list[str], averages: list[str] | None
) -> None:
    lines = [" ".join(line) for line in printed(names, detail)]
    assert set(wanted) <= set(lines)
    assert averages is None or [line for line in lines if line.startswith("Avg.")] == averages


def test_the_json_file_says_what_was_scored_and_how(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean")
    evaluation = Evaluation.of(encoder, "some/model", results(SENTEVAL_SETS), seconds=1.5)
    evaluation.write(tmp_path / "new" / "scores.json")
    content = json.loads((tmp_path / "new" / "scores.json").read_text(encoding="utf-8"))
    assert content["model"] == "some/model"
    assert (content["pooling"], content["prompt"], content["seconds"]) == ("mean", None, 1.5)
    assert {"sentrep", "torch", "transformers"} <= set(content["versions"])
    assert content["averages"] == {"the seven SentEval sets": 73.0}
    assert content["results"][0] == {
        "name": "sts12",
        "pairs": 1000,
        "protocol": "SentEval (all)",
        "dataset": "",
        "spearman": 70.0,
        "pearson": 60.0,
        "per_subset": {"news": {"pairs": 400, "spearman": 71.25}, "one": {"pairs": 1, "spearman": None}},
    }


def test_the_json_file_of_another_suite(tmp_path: Path) -> None:
    scores = {"accuracy": 90.0, "dev accuracy": 80.0}
    tasks = [TaskResult(name, "SentEval", {"test": 3}, scores, "ab") for name in TRANSFER_NAMES]
    evaluation = Evaluation.of(tiny_encoder(), "m", tasks, 1.0, suite="transfer", notes=["Mind the gap."])
    evaluation.write(tmp_path / "scores.json")
    content = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (content["suite"], content["notes"]) == ("transfer", ["Mind the gap."])
    assert content["averages"] == {"the seven SentEval tasks": 90.0}
    assert "scikit-learn" in content["versions"]
    assert content["results"][0] == {
        "name": "mr", "test": 3, "protocol": "SentEval", "dataset": "ab",
        "accuracy": 90.0, "dev accuracy": 80.0,
    }  # fmt: skip
    evaluation.write(tmp_path / "scores.md")
    rows = table_rows(tmp_path / "scores.md")
    assert ["SST2", "3", "SentEval", "90.00"] in rows
    assert rows[-1] == ["Avg.", "", "the seven SentEval tasks", "90.00"]
    assert "\n\nMind the gap.\n" in (tmp_path / "scores.md").read_text(encoding="utf-8")


def test_csv_has_a_row_for_each_subset_and_markdown_the_fingerprint(tmp_path: Path) -> None:
    evaluation = Evaluation.of(tiny_encoder(), "some/model", results(SENTEVAL_SETS), seconds=1.5)
    evaluation.write(tmp_path / "scores.md")
    assert evaluation.fingerprint in (tmp_path / "scores.md").read_text(encoding="utf-8")
    evaluation.write(tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["set", "subset", "pairs", "protocol", "spearman", "pearson"]
    assert rows[0] == ["sts12", "", "1000", "SentEval (all)", "70.0", "60.0"]
    assert [(row[1], row[4]) for row in rows[1:3]] == [("news", "71.25"), ("one", "")]
