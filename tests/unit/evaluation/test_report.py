"""The table and the file of an evaluation."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from sentrep.data import TRANSFER_NAMES
from sentrep.evaluation import SENTEVAL_SETS, Evaluation, TaskResult
from support import tiny_encoder

SEVEN = SENTEVAL_SETS


def results(names: tuple[str, ...]) -> list[TaskResult]:
    return [
        TaskResult(name, "SentEval (all)", {"pairs": 1000 + i}, {"spearman": 70.0 + i}, "ab")
        for i, name in enumerate(names)
    ]


def printed(tasks: list[TaskResult]) -> list[str]:
    out = io.StringIO()
    Evaluation("m", "f", "cls", None, None, {}, 1.0, tasks).print(Console(file=out, width=80))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("names", "wanted", "averages"),
    [
        (SEVEN, ["set pairs protocol Spearman", "STS-B 1005 SentEval (all) 75.00"],
         ["Avg. the seven SentEval sets 73.00"]),
        ((*SEVEN, "sickr-all"), ["SICK-R 1006 SentEval (all) 76.00", "SICK-R (all) 1007 SentEval (all) 77.00"],
         ["Avg. the seven SentEval sets 73.00", "Avg. MTEB: SICK-R with all pairs 73.14"]),
        ((*SEVEN[:-1], "sickr-all"), [], ["Avg. MTEB: SICK-R with all pairs 73.00"]),
        (("stsb", "sickr-dev"), ["mean of 2 sets 70.50"], []),
        (("stsb",), ["STS-B 1000 SentEval (all) 70.00"], []),
    ],
)  # fmt: skip
def test_the_table_has_the_sets_and_the_averages_of_both_protocols(
    names: tuple[str, ...], wanted: list[str], averages: list[str]
) -> None:
    lines = printed(results(names))
    assert set(wanted) <= set(lines)
    assert [line for line in lines if line.startswith("Avg.")] == averages


def test_the_table_of_another_suite() -> None:
    scores = {"accuracy": 90.0, "dev accuracy": 80.0}
    lines = printed([TaskResult(name, "SentEval", {"train": 9, "test": 3}, scores, "ab") for name in TRANSFER_NAMES])
    assert lines[1] == "set test protocol accuracy dev accuracy"
    assert "SST2 3 SentEval 90.00 80.00" in lines
    assert "Avg. the seven SentEval tasks 90.00" in lines


def test_the_file_says_what_was_scored_and_how(tmp_path: Path) -> None:
    encoder = tiny_encoder(pooling="mean")
    evaluation = Evaluation.of(encoder, "some/model", results(SEVEN), seconds=1.5)
    evaluation.write(tmp_path / "new" / "scores.json")
    content = json.loads((tmp_path / "new" / "scores.json").read_text(encoding="utf-8"))
    assert (content["model"], content["fingerprint"], content["suite"]) == ("some/model", evaluation.fingerprint, "sts")
    assert (content["pooling"], content["prompt"], content["seconds"]) == ("mean", None, 1.5)
    assert {"sentrep", "torch", "transformers", "scikit-learn"} <= set(content["versions"])
    assert content["averages"] == {"the seven SentEval sets": 73.0}
    assert content["results"][0] == {
        "name": "sts12", "protocol": "SentEval (all)", "counts": {"pairs": 1000}, "scores": {"spearman": 70.0},
        "dataset": "ab",
    }  # fmt: skip
