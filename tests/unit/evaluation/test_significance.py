"""Intervals and tests over seeds and sentence pairs: beside scipy, beside loops, and by hand."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.stats

from sentrep.errors import InputError
from sentrep.evaluation.significance import Difference, RecipeScores, compare, holm, pair_influences, spearman_rows

Array = np.ndarray


def scores(rng: np.random.Generator, seeds: int, noise: float = 0.3, pairs: int = 40, **more: bool) -> RecipeScores:
    """Runs of a recipe whose cosines follow the gold scores up to noise; the sets are always the same."""
    fixed = np.random.default_rng(99)
    gold = {name: np.round(fixed.uniform(0, 5, pairs), 1) for name in ("a", "b")}
    cosines = {name: g / 5 + rng.normal(0, noise, (seeds, pairs)) for name, g in gold.items()}
    return RecipeScores(tuple(range(seeds)), cosines, gold, **more)


def alone(*values: float, seeds: tuple[int, ...] = (), fixed: bool = False) -> RecipeScores:
    """Scores of one set whose cosines are unknown."""
    return RecipeScores(seeds or tuple(range(len(values))), scores={"mr": np.array(values)}, fixed=fixed)


def numbers(found: Difference) -> list[float | None]:
    return [found.mean, found.low, found.high, found.p_value]


def test_rows_equal_scipy_with_ties() -> None:
    rng = np.random.default_rng(0)
    cosines, gold = np.round(rng.normal(size=(4, 50)), 1), np.round(rng.uniform(0, 5, 50))
    expected = [100 * scipy.stats.spearmanr(row, gold).statistic for row in cosines]
    np.testing.assert_allclose(spearman_rows(cosines, gold), expected, atol=1e-10)


@pytest.mark.parametrize("broken", [np.nan, np.inf, 0.5])
def test_a_collapsed_run_has_no_score(broken: float) -> None:
    cosines = np.full((2, 5), broken) if broken == 0.5 else np.array([[0.1, 0.2, 0.3, 0.4, broken]])
    with pytest.raises(InputError, match="no rank correlation"):
        spearman_rows(cosines, np.arange(5.0))


def test_the_score_of_a_seed_is_the_mean_over_the_sets() -> None:
    recipe = dataclasses.replace(scores(np.random.default_rng(1), 3), scores={"mr": np.array([70.0, 80.0, 90.0])})
    sets = recipe.by_set
    assert list(sets) == ["a", "b", "mr"]
    np.testing.assert_allclose(recipe.per_seed, (sets["a"] + sets["b"] + sets["mr"]) / 3)


@pytest.mark.parametrize(
    ("runs", "collapsed"),
    [
        ((76.1, 75.2, 4.6, 77.0, 76.4), [2]),  # the thesis's RoBERTa-large has 61.94 ± 28.76
        ((76.1, 4.6, 77.0), [1]),
        ((5.0, 75.2, 4.6, 77.0, 76.4), [0, 2]),
        ((76.1, 66.5, 76.3, 77.0, 76.2), []),  # less than 10 points below the median
        ((40.0, 45.0, 28.0, 52.0, 48.0), []),  # runs that differ much
        ((76.1, 75.9, 76.3, 77.0, 98.0), []),
        ((76.1, 4.6), []),
        ((76.1,), []),
    ],
)
def test_runs_far_below_the_median_have_collapsed(runs: tuple[float, ...], collapsed: list[int]) -> None:
    seeds = tuple(range(10, 10 + len(runs)))
    assert alone(*runs, seeds=seeds).collapsed == {seeds[number]: runs[number] for number in collapsed}
    assert alone(*runs, seeds=seeds, fixed=True).collapsed == {}


def test_an_influence_is_the_derivative_by_the_weight_of_a_pair() -> None:
    """Of Spearman's correlation with weights, ranks included, in loops; with ties in cosines and gold scores."""

    def weighted(x: Array, y: Array, weights: Array) -> float:
        share = weights / weights.sum()
        ranks = [
            np.array([(share * ((values < one) + 0.5 * (values == one))).sum() for one in values]) for values in (x, y)
        ]
        a, b = (one - (share * one).sum() for one in ranks)
        return 100 * float((share * a * b).sum() / np.sqrt((share * a**2).sum() * (share * b**2).sum()))

    rng = np.random.default_rng(3)
    gold = np.round(rng.uniform(0, 5, 24))
    cosines = np.stack([gold + rng.normal(0, 2, 24), np.round(gold + rng.normal(0, 1, 24))])
    found = pair_influences(cosines, gold)
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-9)
    for row, pair in itertools.product(range(2), range(24)):
        step = 1e-4 * np.eye(24)[pair]
        up, down = (weighted(cosines[row], gold, 1 + sign * step) for sign in (1, -1))
        assert found[row, pair] == pytest.approx(24 * (up - down) / 2e-4, abs=1e-4)


def assert_is_test(found: Difference, test: Any, shift: float = 0.0) -> None:
    """The p value and the interval of a t-test of scipy's, whose differences are smaller by a shift."""
    interval = test.confidence_interval(0.95)
    assert numbers(found)[1:] == pytest.approx([interval.low - shift, interval.high - shift, test.pvalue])


RUNS, OTHERS = alone(71.0, 74.5, 73.0, 70.0), alone(70.0, 72.0, 73.5, 68.0)


def test_paired_without_pairs_is_student_s_test_of_the_differences() -> None:
    found = compare(RUNS, OTHERS)
    assert_is_test(found, scipy.stats.ttest_rel(RUNS.per_seed, OTHERS.per_seed))
    assert (found.mean, found.paired, found.seeds) == (1.25, True, 4)


def test_unpaired_without_pairs_is_welch_s_test() -> None:
    more = alone(70.0, 72.0, 73.5, 68.0, 69.0)
    found = compare(RUNS, more)
    assert_is_test(found, scipy.stats.ttest_ind(RUNS.per_seed, more.per_seed, equal_var=False))
    assert (found.mean, found.paired, found.seeds) == (1.625, False, 4)
    other = compare(RUNS, dataclasses.replace(RUNS, seeds=(5, 6, 7, 8)))  # the same number is not the same seeds
    assert (other.paired, other.p_value) == (False, 1.0)


def test_what_trains_nothing_is_paired_with_every_seed() -> None:
    untrained = alone(69.0, seeds=(1,), fixed=True)
    found, turned = compare(RUNS, untrained), compare(untrained, RUNS)
    assert_is_test(found, scipy.stats.ttest_1samp(RUNS.per_seed, 69.0), 69.0)
    assert (found.mean, found.paired, found.seeds) == (3.125, True, 4)
    assert numbers(turned) == pytest.approx([-3.125, -found.high, -found.low, found.p_value])


def pair_variance(recipe: RecipeScores, baseline: RecipeScores, paired: bool) -> float:
    """The mean product of two different seeds' influences in loops, by its definition."""
    total = 0.0
    for name, gold in recipe.gold.items():
        first, second = (pair_influences(one.cosines[name], gold) for one in (recipe, baseline))
        if paired:
            rows = [a - b for a, b in zip(*np.broadcast_arrays(first, second), strict=True)]
            products = [[a * b for a, b in itertools.permutations(rows, 2)] or [rows[0] ** 2]]
        else:
            products = [[a * b for a, b in itertools.permutations(one, 2)] for one in (first, second)]
            total -= 2 * np.mean([(a * b).sum() for a in first for b in second]) / (40 * 39)
        total += sum(np.mean([product.sum() for product in some]) for some in products) / (40 * 39)
    return max(total, 0.0) / len(recipe.gold) ** 2


def of_their_own(rng: np.random.Generator, *seeds: int, noise: float) -> list[RecipeScores]:
    """Recipes with errors of their own on each pair under every seed, so that both parts count."""
    recipes = []
    for number in seeds:
        one, own = scores(rng, number, 0.05), rng.normal(0, noise, 40)
        recipes.append(dataclasses.replace(one, cosines={name: rows + own for name, rows in one.cosines.items()}))
    return recipes


@pytest.mark.parametrize("paired", [True, False])
def test_seeds_and_pairs_add_up(paired: bool) -> None:
    recipe, baseline = of_their_own(np.random.default_rng(8), 5, 5 if paired else 4, noise=0.3)
    x, y = recipe.per_seed, baseline.per_seed
    parts = [np.var(x - y, ddof=1) / 5] if paired else [np.var(x, ddof=1) / 5, np.var(y, ddof=1) / 4]
    by_seeds = sum(parts)
    freedom = 4.0 if paired else by_seeds**2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 3)
    by_pairs = pair_variance(recipe, baseline, paired)
    assert by_pairs > by_seeds / 10
    variance = by_seeds + by_pairs
    t = scipy.stats.t(freedom * variance / by_seeds)
    mean, half = x.mean() - y.mean(), t.ppf(0.975) * np.sqrt(variance)
    found = compare(recipe, baseline)
    assert found.paired is paired
    assert numbers(found) == pytest.approx([mean, mean - half, mean + half, 2 * t.sf(abs(mean) / np.sqrt(variance))])


def test_pairs_make_no_difference_surer() -> None:
    """With three seeds a little noise of pairs would narrow the interval, as it adds degrees of freedom."""
    for draw in range(50):
        recipe, baseline = of_their_own(np.random.default_rng(draw), 3, 3, noise=0.05)
        difference = recipe.per_seed - baseline.per_seed
        by_seeds, by_pairs = np.var(difference, ddof=1) / 3, pair_variance(recipe, baseline, paired=True)
        if 0.1 < by_pairs / by_seeds < 1:
            break
    test = scipy.stats.ttest_1samp(difference, 0)
    interval = test.confidence_interval(0.95)
    t = scipy.stats.t(2 * (by_seeds + by_pairs) / by_seeds)
    assert t.ppf(0.975) * np.sqrt(by_seeds + by_pairs) < (interval.high - interval.low) / 2
    both = 2 * t.sf(abs(difference.mean()) / np.sqrt(by_seeds + by_pairs))
    expected = [difference.mean(), interval.low, interval.high, max(test.pvalue, both)]
    assert numbers(compare(recipe, baseline)) == pytest.approx(expected)


def test_of_two_encoders_that_are_not_trained_the_pairs_alone_decide() -> None:
    rng = np.random.default_rng(9)
    first, second = scores(rng, 1, 0.2, fixed=True), scores(rng, 1, 0.5, fixed=True)
    found, error = compare(first, second), np.sqrt(pair_variance(first, second, paired=True))
    mean = float(first.per_seed[0] - second.per_seed[0])
    p_value = 2 * scipy.stats.norm.sf(abs(mean) / error)
    assert numbers(found) == pytest.approx([mean, mean - 1.959964 * error, mean + 1.959964 * error, p_value])
    assert (found.seeds, found.verdict) == (0, "better")
    trained = scores(rng, 4, 0.5)
    difference = first.per_seed - trained.per_seed
    by_seeds, by_pairs = np.var(difference, ddof=1) / 4, pair_variance(first, trained, paired=True)
    t = scipy.stats.t(3 * (by_seeds + by_pairs) / by_seeds)
    both = 2 * t.sf(difference.mean() / np.sqrt(by_seeds + by_pairs))
    found = compare(first, trained)
    assert found.p_value == pytest.approx(max(both, scipy.stats.ttest_1samp(difference, 0).pvalue))
    assert found.high - found.mean == pytest.approx(t.ppf(0.975) * np.sqrt(by_seeds + by_pairs))


def test_pairs_that_move_no_two_seeds_alike_add_nothing() -> None:
    """Where the mean product is negative by chance, the interval is that of the seeds."""
    for draw in range(20):
        recipe, baseline = (scores(np.random.default_rng([draw, number]), 4) for number in range(2))
        if pair_variance(recipe, baseline, paired=True) == 0:
            break
    test = scipy.stats.ttest_rel(recipe.per_seed, baseline.per_seed)
    assert compare(recipe, baseline).p_value == pytest.approx(test.pvalue)


def test_equal_is_what_both_one_sided_tests_of_the_margin_say() -> None:
    """Schuirmann's two tests (TOST), beside scipy's t-test of the shifted differences."""
    apart = np.array([0.05, -0.12, 0.08, 0.02, -0.06])
    baseline, recipe = alone(*[70.0, 71.0, 72.0, 73.0, 74.0]), alone(*(np.arange(70.0, 75.0) + apart))
    for margin in (0.05, 0.1, 0.2, 0.5):
        found = compare(recipe, baseline, margin)
        sides = [
            scipy.stats.ttest_1samp(apart, -margin, alternative="greater").pvalue,
            scipy.stats.ttest_1samp(apart, margin, alternative="less").pvalue,
        ]
        assert found.p_equal == pytest.approx(max(sides), abs=1e-9)
        assert found.verdict == ("equal" if max(sides) < 0.05 else "undecided")


def test_a_clear_difference_is_not_called_equal_even_within_the_margin() -> None:
    baseline = alone(70.0, 71.0, 72.0, 73.0)
    assert compare(alone(70.05, 71.06, 72.05, 73.04), baseline, margin=0.2).verdict == "better"


def test_without_any_scatter_a_difference_is_certain() -> None:
    baseline = alone(70.0, 70.0, 70.0, 70.0)
    assert numbers(compare(baseline, baseline)) == [0.0, 0.0, 0.0, 1.0]
    assert numbers(compare(alone(71.0, 71.0, 71.0, 71.0), baseline)) == [1.0, 1.0, 1.0, 0.0]
    recipe = scores(np.random.default_rng(2), 4)
    assert compare(recipe, recipe).p_value == 1.0


def test_one_seed_or_no_noise_to_measure_gives_no_interval() -> None:
    one = compare(alone(71.0), alone(70.0))
    assert numbers(one) == [1.0, None, None, None]
    assert (one.seeds, one.verdict) == (1, "looks better")
    assert compare(alone(71.0), alone(70.0, 70.5, 71.0)).p_value is None
    neither = compare(alone(71.0, fixed=True), alone(70.0, fixed=True))
    assert numbers(neither) == [1.0, None, None, None]
    assert (neither.seeds, neither.verdict) == (0, "no verdict without seeds")
    assert compare(alone(71.0, 72.0), alone(70.0, 70.0)).p_value is not None


@pytest.mark.parametrize(
    ("mean", "p_value", "seeds", "said"),
    [
        (2.0, 0.049, 4, "better"),
        (-2.0, 0.049, 4, "worse"),
        (2.0, 0.05, 4, "undecided"),
        (2.0, 0.001, 3, "looks better"),
        (2.0, 0.001, 0, "better"),
    ],
)
def test_the_verdict_follows_the_p_value(mean: float, p_value: float, seeds: int, said: str) -> None:
    found = Difference(mean, 1.0, 3.0, p_value, seeds)
    assert found.verdict == said
    assert found.paired
    assert not found.marked
    assert dataclasses.replace(found, adjusted=0.049).marked == (said in ("better", "worse"))
    assert not dataclasses.replace(found, adjusted=0.05).marked


def test_among_many_rows_a_mark_takes_more_than_a_verdict() -> None:
    rows = dict(zip("abcde", (0.01, 0.04, 0.03, None, 0.011), strict=True))
    found = holm({label: Difference(2.0, 1.0, 3.0, p, seeds=9) for label, p in rows.items()})
    expected = {"a": 0.04, "b": 0.06, "c": 0.06, "d": None, "e": 0.04}
    assert {label: one.adjusted for label, one in found.items()} == pytest.approx(expected)
    assert list(found) == list("abcde")
    assert [one.verdict for one in found.values()] == [*["better"] * 3, "no verdict without seeds", "better"]
    assert [one.marked for one in found.values()] == [True, False, False, False, True]
    certain = holm({number: Difference(0.0, -1.0, 1.0, 0.6, 9) for number in range(3)})
    assert [one.adjusted for one in certain.values()] == [1.0] * 3
    assert holm({}) == {}
