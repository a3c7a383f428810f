"""What a comparison computes and writes beside the numbers of a paper."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from sentrep.errors import InputError
from sentrep.evaluation.comparison import Comparison
from sentrep.evaluation.published import Published
from sentrep.evaluation.significance import RecipeScores

QUALITY = {"first": 0.5, "clear": 1.5, "close": 0.52, "worst": 0.1, "as-run": 1.0}


def scores(quality: float, start: int, seeds: int = 5) -> RecipeScores:
    gold = np.random.default_rng(99).uniform(0, 5, 80)
    noise = [np.random.default_rng(start + seed).normal(0, 1, 80) for seed in range(seeds)]
    return RecipeScores(tuple(range(seeds)), {"dev": np.stack([quality * gold + one for one in noise])}, {"dev": gold})


RECIPES = {label: scores(quality, 10 * place) for place, (label, quality) in enumerate(QUALITY.items())}
PAPER: dict[str, tuple[float, float | None] | None] = {
    "first": (74.8, 1.1),
    "clear": (74.0, 1.1),
    "close": (75.0, None),
    "worst": (60.0, 1.3),
    "as-run": (74.0, None),
}


def test_the_paper_s_mean_over_the_same_sets_is_compared_where_every_row_has_one() -> None:
    sets: dict[str, dict[str, tuple[float, float | None]]] = {
        "a": {"sts16": (77.0, 1.0), "stsb": (76.0, 2.0), "sts12": (60.0, 1.0)},
        "b": {"sts16": (78.0, None), "stsb": (79.0, 0.5)},
    }
    paper = Published("Table 2", "mean of seven.", {"a": (74.0, 1.1), "b": (75.0, None), "glove": None}, sets)
    found = paper.over(["sts16", "stsb"])
    assert found.scores == {"a": (76.5, 1.5), "b": (78.5, None), "glove": None}
    assert found.metric == "STS16, STS-B of the paper, averaged as here (its own average: mean of seven)"
    assert found.title == "Table 2"
    assert paper.over(["sts12"]) is paper
    assert paper.over(["sts16", "sickr"]) is paper
    assert Published("", "", {"a": None}).over(["sts16"]).scores == {"a": None}


def test_a_comparison_writes_its_numbers_beside_the_paper_s(tmp_path: Path) -> None:
    files = {}
    for label, found in RECIPES.items():
        files[label] = {seed: tmp_path / f"{label}-{seed}.npz" for seed in range(5)}
        for cosine, file in zip(found.cosines["dev"], files[label].values(), strict=True):
            np.savez(file, **{"cosine/dev": cosine, "gold/dev": found.gold["dev"]})
    comparison = Comparison.read(files, Published("Table 2", "one seed", PAPER))
    comparison.write(tmp_path, {"backbone": "small"})
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (record["title"], record["backbone"], list(record["rows"])) == ("Table 2", "small", list(RECIPES))
    row = record["rows"]["as-run"]
    assert (row["published"], row["published sd"], row["published difference"]) == (74.0, None, -0.8)
    assert row["verdict"] == "better"
    assert row["mean"] == pytest.approx(np.mean(row["sets"]["dev"]))
    assert row["sets"]["dev"] == pytest.approx(RECIPES["as-run"].per_seed)
    console = Console(width=200, file=io.StringIO())
    comparison.print(console)
    printed = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "Table 2. Published: one seed. The scores here are over dev." in printed
    for text in (printed, (tmp_path / "report.md").read_text(encoding="utf-8")):
        assert all(number in text for number in ("74.80 ± 1.10", "-0.80"))
    assert all(label in (tmp_path / "report.svg").read_text(encoding="utf-8") for label in (*RECIPES, "published"))


def test_rows_that_train_nothing_are_told_apart_by_their_pairs_alone(tmp_path: Path) -> None:
    files = {}
    for label in ("first", "clear"):
        files[label] = {0: tmp_path / f"{label}.npz"}
        found = RECIPES[label]
        np.savez(files[label][0], **{"cosine/dev": found.cosines["dev"][0], "gold/dev": found.gold["dev"]})
    untrained = Published("", "one", {"first": (1.0, None), "clear": (2.0, None)}, untrained=["first", "clear"])
    assert Comparison.read(files, untrained).differences["clear"].verdict == "better"
    trained = Published("", "one", untrained.scores, untrained=["first"])
    assert Comparison.read(files, trained).differences["clear"].verdict == "no verdict under 4 seeds"


def test_rows_with_collapsed_seeds_are_named(tmp_path: Path) -> None:
    whole, broken = (
        RecipeScores((1, 2, 3, 4), scores={"mr": np.array([76.0, 75.0, last, 77.0])}) for last in (76.5, 5)
    )
    comparison = Comparison.of({"first": whole, "gaussian": broken})
    comparison.write(tmp_path)
    console = Console(width=200, file=io.StringIO())
    comparison.print(console)
    for text in (console.file.getvalue(), (tmp_path / "report.md").read_text(encoding="utf-8")):  # type: ignore[attr-defined]
        named = "Collapsed runs, far below the median of their recipe's seeds: gaussian (seed 3: 5.00)."
        assert named in " ".join(text.split())
    Comparison.of({"first": whole}).print(console := Console(width=200, file=io.StringIO()))
    assert "Collapsed" not in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_dose_of_drawn_negatives_is_shown_and_a_small_one_is_no_treatment(tmp_path: Path) -> None:
    files = {label: {0: tmp_path / f"{label}.npz"} for label in ("simcse", "noise", "bank")}
    for place, file in enumerate(files.values()):
        np.savez(file[0], **{"accuracy/mr": 70.0 + place})
    comparison = Comparison.read(files, doses={"noise": 7.5e-6, "bank": 0.21})
    comparison.write(tmp_path)
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["rows"]
    assert [row["dose"] for row in record.values()] == [None, 7.5e-6, 0.21]
    assert "A row below 0.0001 is not treated" in (tmp_path / "report.md").read_text(encoding="utf-8")
    cells = dict(zip(files, comparison.table()["dose"], strict=True))
    assert cells == {"simcse": "", "noise": "7.5e-06 (not treated)", "bank": "2.1e-01"}
    assert "dose" not in Comparison.read(files).table()


@pytest.mark.parametrize("change", ["order", "gold", "number"])
def test_seeds_that_were_scored_on_other_pairs_are_refused(change: str, tmp_path: Path) -> None:
    gold, cosine = np.arange(5.0), np.linspace(0, 1, 5)
    other = {"order": gold[::-1], "gold": gold + 1, "number": gold[:4]}[change]
    np.savez(tmp_path / "1.npz", **{"cosine/dev": cosine, "gold/dev": gold})
    np.savez(tmp_path / "2.npz", **{"cosine/dev": cosine[: len(other)], "gold/dev": other})
    with pytest.raises(InputError, match=r"2\.npz and .*1\.npz were scored on other pairs.*dev"):
        Comparison.read({"a": {1: tmp_path / "1.npz", 2: tmp_path / "2.npz"}})
