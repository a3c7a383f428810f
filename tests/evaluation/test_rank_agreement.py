"""Ranks of rows beside a paper's: against loops, and what a comparison writes of them."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from rich.console import Console

from sentrep.evaluation.comparison import Comparison
from sentrep.evaluation.published import Published, with_released
from sentrep.evaluation.rank_agreement import Order, RankAgreement, agreement
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
}
PUBLISHED = Published("Table 2", "five seeds", PAPER, seeds=5)


def found_orders(found: RankAgreement | None) -> dict[tuple[str, str], str]:
    assert found is not None
    return {pair: order.found for pair, order in found.orders.items()}


def test_correlation_and_p_equal_loops_over_all_rankings() -> None:
    found = agreement(RECIPES, PUBLISHED, list(PAPER))
    assert found is not None
    assert found.labels == ("first", "clear", "close", "worst")
    theirs = list(PUBLISHED.means().values())
    ours = [RECIPES[label].per_seed.mean() for label in PAPER]
    rho = scipy.stats.spearmanr(ours, theirs).statistic
    rankings = [scipy.stats.spearmanr(order, theirs).statistic for order in itertools.permutations(ours)]
    assert found.spearman == pytest.approx(rho)
    assert found.p_value == pytest.approx(np.mean([other >= rho - 1e-9 for other in rankings]))


def test_orderings_are_counted_by_what_the_paper_s_own_numbers_say() -> None:
    found = agreement(RECIPES, PUBLISHED, list(PAPER))
    assert found_orders(found) == {
        ("first", "clear"): "turns around",
        ("first", "worst"): "holds",
        ("clear", "worst"): "holds",
        ("close", "first"): "cannot be told",
        ("close", "clear"): "turns around",
        ("close", "worst"): "holds",
    }
    assert found is not None
    assert {pair: str(order) for pair, order in found.orders.items()}["first", "clear"] == "not supported"
    assert found.sentences() == (
        f"{found.correlation()}. Of 6 published orderings of two rows "
        "2 beyond the paper's own ±: 2 hold, 0 turn around, 0 cannot be told; "
        "3 without a test of the paper's own: 1 hold, 1 turn around, 1 cannot be told; "
        "1 within the paper's own ±: not counted."
    )


def test_orderings_are_corrected_for_all_pairs_of_rows_first() -> None:
    """Two pairs have p below 0.05, but not 15 times it; one has both."""
    shift = {"a": 0.0, "b": 1.0, "c": 1.1, "d": 0.9, "e": 1.0, "f": 8.0}
    noise = {label: np.random.default_rng(place).normal(0, 0.6, 5) for place, label in enumerate(shift)}
    recipes = {
        label: RecipeScores(tuple(range(5)), scores={"dev": 70 + shift[label] + noise[label]}) for label in shift
    }
    published = Published("", "", {label: (float(place), None) for place, label in enumerate(shift)})
    found = found_orders(agreement(recipes, published, list(shift)))
    raw = {pair: compare(recipes[pair[0]], recipes[pair[1]]).p_value or 0 for pair in found}
    assert len(raw) == 15
    passed, expected = True, set()
    for place, (pair, p_value) in enumerate(sorted(raw.items(), key=lambda item: item[1])):
        passed = passed and (15 - place) * p_value < 0.05
        expected |= {pair} if passed else set()
    assert {pair for pair, order in found.items() if order == "holds"} == expected
    assert 0 < len(expected) < sum(p_value < 0.05 for p_value in raw.values())


def test_equal_numbers_share_a_rank_and_have_no_order() -> None:
    printed = {"first": 74.8, "clear": 76.0, "close": 74.8, "worst": 60.0}
    published = Published("", "", {label: (mean, None) for label, mean in printed.items()})
    found = agreement(RECIPES, published, list(printed))
    assert found is not None
    ours = [RECIPES[label].per_seed.mean() for label in printed]
    assert found.spearman == pytest.approx(scipy.stats.spearmanr(ours, list(printed.values())).statistic)
    assert len(found.orders) == 5


@pytest.mark.parametrize("means", [{"first": 1.0}, {"elsewhere": 1.0, "first": 2.0}, dict.fromkeys(QUALITY, 3.0)])
def test_one_row_or_equal_numbers_make_no_ranking(means: dict[str, float]) -> None:
    published = Published("", "", {label: (mean, None) for label, mean in means.items()})
    assert agreement(RECIPES, published, list(means)) is None


@pytest.mark.parametrize(("p_value", "supported"), [(0.049, True), (0.05, False), (None, None)])
def test_an_order_needs_the_paper_s_support(p_value: float | None, supported: bool | None) -> None:
    order = Order("holds", p_value)
    assert order.supported is supported
    assert str(order) == ("not supported" if supported is False else "holds")


def test_the_paper_s_test_is_welch_s_with_a_population_s_deviation() -> None:
    values = {"a": [74.0, 75.5, 73.2, 76.1, 74.4], "b": [76.0, 76.6, 75.9, 77.1, 76.2]}
    printed: dict[str, tuple[float, float | None] | None] = {
        **{label: (float(np.mean(some)), float(np.std(some))) for label, some in values.items()},
        "bare": (70.0, None),
        "untrained": (31.4, None),
        "random": (30.0, None),
    }
    paper = Published("", "", printed, seeds=5, untrained=["untrained", "random"])
    expected = scipy.stats.ttest_ind(values["a"], values["b"], equal_var=False).pvalue
    assert paper.p_value("a", "b") == pytest.approx(expected)
    assert paper.p_value("a", "bare") is None
    assert paper.p_value("a", "untrained") == pytest.approx(scipy.stats.ttest_1samp(values["a"], 31.4).pvalue)
    assert paper.p_value("untrained", "random") == 0.0
    assert paper.p_value("random", "random") == 1.0
    assert dataclasses.replace(paper, seeds=None).p_value("a", "b") is None


def test_the_paper_s_mean_over_the_same_sets_is_compared_where_every_row_has_one() -> None:
    sets: dict[str, dict[str, tuple[float, float | None]]] = {
        "a": {"sts16": (77.0, 1.0), "stsb": (76.0, 2.0), "sts12": (60.0, 1.0)},
        "b": {"sts16": (78.0, None), "stsb": (79.0, 0.5)},
    }
    paper = Published("", "mean of seven.", {"a": (74.0, 1.1), "b": (75.0, None), "glove": None}, sets, seeds=5)
    found = paper.over(["sts16", "stsb"])
    assert found.scores == {"a": (76.5, 1.5), "b": (78.5, None), "glove": None}
    assert found.metric == "STS16, STS-B of the paper, averaged as here (its own average: mean of seven)"
    assert (found.seeds, found.title) == (5, "")
    assert paper.over(["sts12"]) is paper
    assert paper.over(["sts16", "sickr"]) is paper
    assert Published("", "", {"a": None}).over(["sts16"]).scores == {"a": None}


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
    printed = {**PAPER, "as-run": (74.0, None)}
    published = Published("Table 2", "one seed", printed, seeds=5, released={"as-run": "clear"})
    comparison = Comparison.read(files, published)
    assert comparison.agreements["paper"].labels == ("first", "clear", "close", "worst")
    assert comparison.agreements["released"].labels == ("first", "close", "worst", "as-run")
    comparison.write(tmp_path, {"backbone": "small"})
    record = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (record["title"], record["backbone"], list(record["rows"])) == ("Table 2", "small", list(RECIPES))
    row = record["rows"]["as-run"]
    assert (row["published"], row["published sd"], row["published difference"]) == (74.0, None, -0.8)
    assert (row["verdict"], row["order"]) == ("better", "turns around")
    assert row["mean"] == pytest.approx(np.mean(row["sets"]["dev"]))
    assert row["sets"]["dev"] == pytest.approx(RECIPES["as-run"].per_seed)
    ranks = record["rank_agreement"]["paper"]
    assert ranks["orders"]["first > clear"] == {"found": "turns around", "published_p": pytest.approx(0.3338, abs=1e-4)}
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
    assert Comparison.read(files, untrained).differences["clear"].verdict == "better"
    trained = Published("", "one", untrained.scores, untrained=["first"])
    assert Comparison.read(files, trained).differences["clear"].verdict == "no verdict under 4 seeds"
