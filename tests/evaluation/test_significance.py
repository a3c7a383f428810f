"""Statistics over seeds beside scipy, and how often equal recipes are called different."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from sentrep.errors import InputError
from sentrep.evaluation.significance import (
    Difference,
    RecipeScores,
    compare,
    holm,
    spearman_rows,
)


def scores(rng: np.random.Generator, seeds: int, noise: float, pairs: int = 120) -> RecipeScores:
    """Runs of a recipe whose cosines follow the gold scores up to noise; the sets are always the same."""
    fixed = np.random.default_rng(99)
    gold = {name: np.round(fixed.uniform(0, 5, pairs), 1) for name in ("a", "b")}
    cosines = {name: g / 5 + rng.normal(0, noise, (seeds, pairs)) for name, g in gold.items()}
    return RecipeScores(cosines, gold)


def test_rows_equal_scipy_with_ties() -> None:
    rng = np.random.default_rng(0)
    cosines, gold = np.round(rng.normal(size=(4, 50)), 1), np.round(rng.uniform(0, 5, 50))
    expected = [100 * scipy.stats.spearmanr(row, gold).statistic for row in cosines]
    np.testing.assert_allclose(spearman_rows(cosines, gold), expected, atol=1e-10)


@pytest.mark.parametrize("broken", [np.nan, 0.5])
def test_a_collapsed_run_has_no_score(broken: float) -> None:
    cosines = np.full((2, 5), broken) if broken == 0.5 else np.array([[0.1, 0.2, 0.3, 0.4, broken]])
    with pytest.raises(InputError, match="no rank correlation"):
        spearman_rows(cosines, np.arange(5.0))


@pytest.mark.parametrize("seeds", [5, 4])
def test_the_test_is_student_s_of_differences_by_seed_or_welch_s(seeds: int) -> None:
    rng = np.random.default_rng(1)
    recipe, baseline = scores(rng, 5, 0.30), scores(rng, seeds, 0.33)
    a, b = recipe.per_seed(), baseline.per_seed()
    result = compare(recipe, baseline, resamples=10)
    assert result.mean == pytest.approx(a.mean() - b.mean())
    if seeds == 5:
        error, freedom = np.std(a - b, ddof=1) / np.sqrt(5), 4.0
    else:
        parts = np.array([a.var(ddof=1) / 5, b.var(ddof=1) / 4])
        error, freedom = np.sqrt(parts.sum()), parts.sum() ** 2 / (parts**2 / [4, 3]).sum()
    assert result.p_value == pytest.approx(2 * scipy.stats.t.sf(abs(result.mean) / error, freedom))


def test_what_seeds_share_is_not_counted_as_noise() -> None:
    rng = np.random.default_rng(6)
    baseline = scores(rng, 5, 0.3)
    better = {name: found + 0.02 * baseline.gold[name] for name, found in baseline.cosines.items()}
    found = compare(RecipeScores(better, baseline.gold), baseline, resamples=100)
    assert found.mean < np.ptp(baseline.per_seed())
    assert found.verdict == "better"
    assert compare(baseline, baseline, resamples=10).p_value == 1.0


def test_the_same_seeds_are_paired_in_interval_and_test_and_others_are_not() -> None:
    """A recipe a little better at every seed, where seeds differ by much more: only by seed can it be seen."""
    rng = np.random.default_rng(6)
    gold = {"a": np.linspace(0, 5, 80)}
    shared = rng.normal(0, 1, (6, 80)) * np.linspace(0.2, 2.0, 6)[:, None]
    baseline = RecipeScores({"a": gold["a"] + shared}, gold, seeds=(5, 3, 8, 1, 9, 2))
    better = RecipeScores({"a": 1.05 * gold["a"] + shared}, gold, seeds=baseline.seeds)
    found = compare(better, baseline, resamples=100)
    assert (found.paired, found.low > 0, found.verdict) == (True, True, "better")
    other = RecipeScores(better.cosines, gold, seeds=(5, 3, 8, 1, 9, 7))
    found = compare(other, baseline, resamples=100)
    assert (found.paired, found.low < 0 < found.high, found.verdict) == (False, True, "within seed noise")
    one = RecipeScores({"a": 9 * gold["a"][None] + shared[:1]}, gold, seeds=(5,), fixed=True)  # trains nothing
    found = compare(one, baseline, resamples=100)
    above = one.per_seed() - baseline.per_seed()
    assert (found.paired, found.seeds) == (True, 6)
    assert found.p_value == pytest.approx(scipy.stats.ttest_1samp(above, 0).pvalue)


def test_scores_of_another_suite_are_drawn_by_seed_alone() -> None:
    names = {"mr": np.array([70.0, 71, 72, 73, 74, 75]), "cr": np.array([80.0, 80, 80, 80, 80, 80])}
    baseline = RecipeScores({}, {}, names)
    recipe = RecipeScores({}, {}, {"mr": names["mr"] + [1, 2, 1, 2, 1, 2], "cr": names["cr"]})
    found = compare(recipe, baseline, resamples=200)
    assert (found.mean, found.verdict) == (0.75, "better")
    assert 0.5 <= found.low < found.high <= 1.0


def test_among_many_rows_a_mark_takes_more_than_a_verdict() -> None:
    rows = dict(zip("abcd", (0.01, 0.04, 0.03, None), strict=True))
    found = holm({label: Difference(2.0, 1.0, 3.0, p, seeds=9) for label, p in rows.items()})
    expected = {"a": 0.03, "b": 0.06, "c": 0.06, "d": None}
    assert {label: one.adjusted for label, one in found.items()} == pytest.approx(expected)
    assert [one.verdict for one in found.values()] == ["better"] * 4  # each row by itself
    assert [one.marked for one in found.values()] == [True, False, False, False]


def test_the_interval_equals_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(2)
    recipe, baseline = scores(rng, 3, 0.2, pairs=60), scores(rng, 3, 0.3, pairs=60)
    result = compare(recipe, baseline, resamples=400, seed=5)
    draw, differences = np.random.default_rng(5), []
    for _ in range(400):
        seeds, total = draw.integers(3, size=3), 0.0
        for name in ("a", "b"):
            pairs = draw.integers(60, size=60)
            for s in seeds:
                for sign, runs in ((1, recipe), (-1, baseline)):
                    rho = scipy.stats.spearmanr(runs.cosines[name][s, pairs], runs.gold[name][pairs]).statistic
                    total += sign * 100 * rho / 6
        differences.append(total)
    np.testing.assert_allclose([result.low, result.high], np.quantile(differences, [0.025, 0.975]), atol=1e-9)


def test_a_recipe_against_itself_is_within_seed_noise_nearly_always() -> None:
    rng = np.random.default_rng(4)
    verdicts = [compare(scores(rng, 5, 0.3), scores(rng, 5, 0.3), resamples=50).verdict for _ in range(40)]
    assert verdicts.count("within seed noise") >= 36


def test_few_seeds_get_no_verdict() -> None:
    assert Difference(9.0, 8.0, 10.0, 0.01, seeds=3).verdict == "no verdict under 4 seeds"


def test_other_sets_are_refused() -> None:
    rng = np.random.default_rng(5)
    recipe, other = scores(rng, 4, 0.3), scores(rng, 4, 0.3)
    with pytest.raises(InputError, match="different sets"):
        compare(recipe, RecipeScores({"a": other.cosines["a"]}, {"a": other.gold["a"]}))
    other.gold["a"] = other.gold["a"][::-1].copy()
    with pytest.raises(InputError, match="different pairs of a"):
        compare(recipe, other)
