"""Ranks of rows beside a paper's: against loops, and what a comparison writes of them."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from rich.console import Console

from sentrep.evaluation.comparison import Comparison, Published
from sentrep.evaluation.rank_agreement import agreement, order, with_released
from sentrep.evaluation.significance import Difference, RecipeScores, bootstrap

QUALITY = {"first": 0.5, "clear": 1.5, "close": 0.52, "worst": 0.1, "as-run": 1.0}


def scores(quality: float, start: int, seeds: int = 5) -> RecipeScores:
    gold = np.random.default_rng(99).uniform(0, 5, 80)
    noise = [np.random.default_rng(start + seed).normal(0, 1, 80) for seed in range(seeds)]
    return RecipeScores({"dev": np.stack([quality * gold + one for one in noise])}, {"dev": gold})


RECIPES = {label: scores(quality, 10 * place) for place, (label, quality) in enumerate(QUALITY.items())}
PAPER = {"first": (74.8, 1.1), "clear": (74.0, None), "close": (75.0, None), "worst": (60.0, None)}


def drawn(recipes: dict[str, RecipeScores]) -> dict[str, np.ndarray]:
    return dict(zip(recipes, bootstrap(list(recipes.values()), resamples=50).T, strict=True))


def test_correlation_p_and_interval_equal_loops_over_all_rankings() -> None:
    published = {label: mean for label, (mean, _) in PAPER.items()}
    draws = drawn(RECIPES)
    found = agreement(RECIPES, published, draws)
    assert found is not None
    assert found.labels == ("first", "clear", "close", "worst")  # what has no published score is not ranked
    theirs = list(published.values())
    ours = [RECIPES[label].per_seed().mean() for label in published]
    rho = scipy.stats.spearmanr(ours, theirs).statistic
    rankings = [scipy.stats.spearmanr(order, theirs).statistic for order in itertools.permutations(ours)]
    assert found.spearman == pytest.approx(rho)
    assert found.p_value == pytest.approx(np.mean([other >= rho - 1e-9 for other in rankings]))
    each = [scipy.stats.spearmanr([draws[label][k] for label in published], theirs).statistic for k in range(50)]
    np.testing.assert_allclose([found.low, found.high], np.quantile(each, [0.025, 0.975]), atol=1e-12)
    assert found.orders == {
        ("first", "clear"): "turns around",
        ("first", "worst"): "holds",
        ("clear", "worst"): "holds",
        ("close", "first"): "cannot be told",
        ("close", "clear"): "turns around",
        ("close", "worst"): "holds",
    }
    assert "Of 6 published orderings of two rows 3 hold, 2 turn around, 1 cannot be told." in found.sentences()


def test_equal_numbers_share_a_rank_and_have_no_order() -> None:
    published = {"first": 74.8, "clear": 76.0, "close": 74.8, "worst": 60.0}
    found = agreement(RECIPES, published, drawn(RECIPES))
    assert found is not None
    ours = [RECIPES[label].per_seed().mean() for label in published]
    assert found.spearman == pytest.approx(scipy.stats.spearmanr(ours, list(published.values())).statistic)
    assert len(found.orders) == 5


@pytest.mark.parametrize("published", [{"first": 1.0, "clear": 2.0}, dict.fromkeys(QUALITY, 3.0)])
def test_two_rows_or_equal_numbers_make_no_ranking(published: dict[str, float]) -> None:
    assert agreement(RECIPES, published, drawn(RECIPES)) is None


@pytest.mark.parametrize(("mean", "published", "said"), [(2, 1, "holds"), (-2, -1, "holds"), (2, -1, "turns around")])
def test_an_order_is_told_only_with_a_verdict(mean: float, published: float, said: str) -> None:
    assert order(Difference(mean, mean - 1, mean + 1, 0.01, 5), published) == said
    for unsure in (Difference(mean, -3, 3, 0.01, 5), Difference(mean, mean - 1, mean + 1, 0.1, 5)):
        assert order(unsure, published) == "cannot be told"
    assert order(Difference(mean, mean - 1, mean + 1, 0.01, 3), published) == "cannot be told"


def test_a_released_reading_takes_the_place_of_its_row() -> None:
    labels = ["a", "b", "b-run", "b-other", "d-run", "e"]
    released = {"b-run": "b", "b-other": "b", "c-run": "c", "d-run": "d"}
    assert with_released(labels, released) == ["a", "b-run", "d-run", "e"]  # c-run is not ranked, d was not chosen


def test_a_comparison_writes_both_readings_beside_the_paper(tmp_path: Path) -> None:
    files = {}
    for label, found in RECIPES.items():
        files[label] = {seed: tmp_path / f"{label}-{seed}.npz" for seed in range(5)}
        for cosine, file in zip(found.cosines["dev"], files[label].values(), strict=True):
            np.savez(file, **{"cosine/dev": cosine, "gold/dev": found.gold["dev"]})
    published = Published("Table 2", "one seed", {**PAPER, "as-run": PAPER["clear"]}, released={"as-run": "clear"})
    comparison = Comparison.read(files, resamples=50, published=published)
    assert comparison.agreements["paper"].labels == ("first", "clear", "close", "worst")
    assert comparison.agreements["released"].labels == ("first", "close", "worst", "as-run")
    comparison.write(tmp_path, {"backbone": "small"})
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (record["title"], record["backbone"], list(record["rows"])) == ("Table 2", "small", list(RECIPES))
    row = record["rows"]["as-run"]
    assert (row["reading"], row["published"], row["published_difference"]) == ("released", [74.0, None], -0.8)
    assert (row["difference"]["verdict"], row["order"]) == ("better", "turns around")
    assert row["mean"] == pytest.approx(np.mean(row["per_seed"]))
    assert row["sets"]["dev"] == pytest.approx(RECIPES["as-run"].per_seed())
    ranks = record["rank_agreement"]["paper"]
    assert ranks["orders"]["first > clear"] == "turns around"
    correlation = comparison.agreements["paper"].correlation()
    assert f"{ranks['spearman']:.2f}" in correlation
    console = Console(width=200, file=io.StringIO())
    comparison.print(console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    for text in (printed, (tmp_path / "report.html").read_text(encoding="utf-8")):
        assert f"Rank agreement: {correlation}. Of 6 published orderings" in " ".join(text.split())
        assert "The same with the readings of the released code in their places: Spearman" in " ".join(text.split())
        assert "turns around" in text
    assert "![](agreement.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
    picture = (tmp_path / "agreement.svg").read_text(encoding="utf-8")
    assert all(label in picture for label in (*RECIPES, "as the released code does it", correlation))


def test_rows_that_train_nothing_are_told_apart_by_their_pairs_alone(tmp_path: Path) -> None:
    files = {}
    for label in ("first", "clear"):
        files[label] = {0: tmp_path / f"{label}.npz"}
        found = RECIPES[label]
        np.savez(files[label][0], **{"cosine/dev": found.cosines["dev"][0], "gold/dev": found.gold["dev"]})
    untrained = Published("", "one", {"first": (1.0, None), "clear": (2.0, None)}, untrained=["first", "clear"])
    assert Comparison.read(files, 100, untrained).differences["clear"].verdict == "better"
    trained = Published("", "one", untrained.scores, untrained=["first"])
    assert Comparison.read(files, 100, trained).differences["clear"].verdict == "no verdict under 4 seeds"
