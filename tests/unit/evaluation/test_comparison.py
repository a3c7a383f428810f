"""What a comparison computes and writes beside the numbers of a paper."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.errors import InputError
from sentrep.evaluation.comparison import Comparison
from sentrep.evaluation.published import Published
from sentrep.evaluation.run_scores import RECORD, SCORES, finished_runs, write_scores
from sentrep.evaluation.significance import RecipeScores, compare

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


def write_run(
    folder: Path, seed: int, cosine: np.ndarray, gold: np.ndarray, content: str = "x", order: int = 1
) -> Path:
    """A finished run of one set."""
    texts = [f"sentence {number}" for number in range(len(gold))][::order]
    folder.mkdir(parents=True)
    write_scores(folder, [ScoredPairs("dev", texts, texts, gold[::order].tolist())], {"dev": torch.tensor(cosine)})
    (folder / RECORD).write_text(json.dumps({"seed": seed, "content": content, "text": content, "settings": {}}))
    return folder


def read(folders: Mapping[str, Path], *arguments: Any, **options: Any) -> Comparison:
    """Compare the runs of folders."""
    return Comparison.read({label: finished_runs(folder) for label, folder in folders.items()}, *arguments, **options)


def write_recipes(folder: Path, recipes: Mapping[str, RecipeScores]) -> dict[str, Path]:
    """The folders of recipes, a run below for each seed, written in another order than that of the seeds."""
    for label, found in recipes.items():
        for seed, cosine in [*zip(found.seeds, found.cosines["dev"], strict=True)][::-1]:
            write_run(folder / label / f"seed-{seed}", seed, cosine, found.gold["dev"], label)
    return {label: folder / label for label in recipes}


def test_a_comparison_writes_its_numbers_beside_the_paper_s(tmp_path: Path) -> None:
    folders = write_recipes(tmp_path, RECIPES)
    comparison = read(folders, published=Published("Table 2", "one seed", PAPER))
    comparison.write(tmp_path)
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (record["title"], record["metric"], list(record["rows"])) == ("Table 2", "one seed", list(RECIPES))
    row = record["rows"]["as-run"]
    assert (row["published"], row["published sd"], row["published difference"]) == (74.0, None, -0.8)
    assert row["verdict"] == "better"
    assert row["mean"] == pytest.approx(np.mean(row["sets"]["dev"]))
    assert row["sets"]["dev"] == pytest.approx(RECIPES["as-run"].per_seed)
    assert record["rows"]["clear"]["published difference sd"] == pytest.approx(np.hypot(1.1, 1.1))
    console = Console(width=200, file=io.StringIO())
    comparison.print(console)
    printed = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "Table 2" in printed
    for text in (printed, " ".join((tmp_path / "report.md").read_text(encoding="utf-8").split())):
        assert "Published: one seed. The scores here are over dev." in text
        assert "The paper prints no error for close, as-run" in text
        assert all(number in text for number in ("74.80 ± 1.10", "-0.80 ± 1.56"))
    assert all(label in (tmp_path / "report.svg").read_text(encoding="utf-8") for label in (*RECIPES, "published"))


def test_the_numbers_are_those_of_the_statistics_and_the_baseline_can_be_named(tmp_path: Path) -> None:
    folders = write_recipes(tmp_path, RECIPES)
    found = read(folders, "clear", margin=0.4)
    assert (found.baseline, list(found.recipes)) == ("clear", list(RECIPES))
    for label, scores_of in RECIPES.items():
        if label != "clear":
            expected = compare(scores_of, RECIPES["clear"], 0.4)
            assert (found.differences[label].mean, found.differences[label].p_equal) == pytest.approx(
                (expected.mean, expected.p_equal)
            )


def test_tables_for_papers_and_programs(tmp_path: Path) -> None:
    comparison = read(write_recipes(tmp_path, {"plain": RECIPES["worst"], "go_od": RECIPES["clear"]}))
    comparison.write(tmp_path)
    latex, table = ((tmp_path / f"report.{ending}").read_text(encoding="utf-8") for ending in ("tex", "csv"))
    assert latex.startswith("\\begin{tabular}{lrrrrrr}\n\\toprule\nrecipe & seeds & dev & mean")
    assert "go\\_od & 5 & " in latex
    first, second = csv.DictReader(io.StringIO(table))
    assert (first["recipe"], first["verdict"], second["verdict"]) == ("plain", "baseline", "better")
    assert float(second["difference"]) == pytest.approx(float(second["mean"]) - float(first["mean"]))
    assert 0 < float(second["p"]) == float(second["p holm"]) < 0.05


def test_rows_that_train_nothing_are_told_apart_by_their_pairs_alone(tmp_path: Path) -> None:
    folders = {}
    for label in ("first", "clear"):
        found = RECIPES[label]
        folders[label] = write_run(tmp_path / label, 0, found.cosines["dev"][0], found.gold["dev"])
    untrained = Published("", "one", {"first": (1.0, None), "clear": (2.0, None)}, untrained=["first", "clear"])
    assert read(folders, published=untrained).differences["clear"].verdict == "better"
    trained = Published("", "one", untrained.scores, untrained=["first"])
    found = read(folders, published=trained).differences["clear"]
    assert found.verdict == "looks better"


def test_rows_with_collapsed_seeds_are_named() -> None:
    whole, broken = (
        RecipeScores((1, 2, 3, 4), scores={"mr": np.array([76.0, 75.0, last, 77.0])}) for last in (76.5, 5)
    )
    named = "Collapsed runs, far below the median of their recipe's seeds: gaussian (seed 3: 5.00)."
    assert any(note.startswith(named) for note in Comparison({"first": whole, "gaussian": broken}, "first").notes)
    assert not any("Collapsed" in note for note in Comparison({"first": whole}, "first").notes)


def test_the_dose_of_drawn_negatives_is_shown_and_a_small_one_is_no_treatment(tmp_path: Path) -> None:
    folders = write_recipes(tmp_path, dict.fromkeys(("simcse", "noise", "bank"), RECIPES["close"]))
    for label, shares in {"noise": (7e-6, 8e-6), "bank": (0.2, 0.22)}.items():
        for seed, share in enumerate(shares):
            (tmp_path / label / f"seed-{seed}/metrics.csv").write_text(f"step,train/x/dose/g\n10,{share}\n20,\n")
    (tmp_path / "simcse/seed-0/metrics.csv").write_text("step,train/loss\n10,1\n")
    comparison = read(folders)
    assert any("A row below 0.0001 is not treated" in note for note in comparison.notes)
    assert [*comparison.table["dose"]] == ["", "7.5e-06 (not treated)", "2.1e-01"]


def test_text_steps_and_flags_of_each_recipe_are_named(tmp_path: Path) -> None:
    folders = write_recipes(tmp_path, dict.fromkeys(("plain", "same", "warm", "untrained"), RECIPES["close"]))
    settings = {"objective": "Contrastive", "temperature": 0.05}
    changed = {"warm": {"objective": "Contrastive", "temperature": 0.1, "val": ["a", "b"]}}
    for label in ("plain", "same", "warm"):
        for seed, run in enumerate(sorted(folders[label].iterdir())):
            record = json.loads((run / RECORD).read_text(encoding="utf-8"))
            record |= {"data": "wiki.txt", "settings": changed.get(label, settings)}
            (run / RECORD).write_text(json.dumps(record), encoding="utf-8")
            (run / "selection.json").write_text(json.dumps({"step": 20 if label == "plain" else 100 - 10 * seed}))
    comparison = read(folders)
    assert comparison.training == {
        "plain": {"data": "wiki.txt", "steps": "20", "flags": "none"},
        "same": {"data": "wiki.txt", "steps": "60 to 100", "flags": "none"},
        "warm": {"data": "wiki.txt", "steps": "60 to 100", "flags": '--temperature 0.1 --val ["a", "b"]'},
        "untrained": {},
    }
    comparison.write(tmp_path)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert '\n\nwarm: data wiki.txt, steps 60 to 100, flags --temperature 0.1 --val ["a", "b"].\n' in report
    assert "\n\nuntrained: not trained.\n" in report
    assert read(folders, "warm").training["plain"]["flags"] == "--temperature 0.05 --val null"


def spoil(change: str, run: Path, found: RecipeScores) -> None:
    """Make a run that does not fit to the others."""
    gold, cosine = found.gold["dev"], found.cosines["dev"][0]
    others = {"order": {"order": -1}, "gold": {"gold": gold + 1}, "content": {"content": "other"}, "seed": {"seed": 1}}
    shutil.rmtree(run)
    write_run(run, **{"seed": 0, "cosine": cosine, "gold": gold, "content": "clear", **others.get(change, {})})
    if change == "damaged scores":
        (run / SCORES).write_bytes(b"PAR1 {")
    if change == "empty record":
        (run / RECORD).write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("order", r"seed-0/scores\.parquet and .*scores\.parquet are not of the same pairs in one order"),
        ("gold", r"seed-0/scores\.parquet and .* are not of the same pairs"),
        ("content", r"seed-1/run\.json and .*seed-0/run\.json are not one recipe: other text"),
        ("seed", r"seed-1/run\.json and .*seed-0/run\.json are one recipe under one seed"),
        ("damaged scores", r"seed-0/scores\.parquet: no readable scores"),
        ("empty record", r"seed-0/run\.json: no readable record"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_files(change: str, says: str, tmp_path: Path) -> None:
    folders = write_recipes(tmp_path, {label: RECIPES[label] for label in ("first", "clear")})
    spoil(change, folders["clear"] / "seed-0", RECIPES["clear"])
    with pytest.raises(InputError, match=says):
        read(folders)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"empty: no run lies here \(run\.json\)"):
        read({"empty": tmp_path / "empty"})
