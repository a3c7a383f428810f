"""Whether one recipe is better than another, beyond the effect of other seeds and other test sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from sentrep.errors import InputError

Array = NDArray[np.float64]

LEVEL = 0.05
"""Two-sided level of every test; intervals cover 1 − LEVEL."""
MARGIN = 0.2
"""The least difference that would matter, in points."""
FEWEST_SEEDS = 4
"""Seeds that a verdict needs: fewer seeds show too little of their scatter."""
COLLAPSE = 10.0, 5.0
"""How far below the median a collapsed run's score is: in points, and in scaled median absolute deviations."""


@dataclass(frozen=True)
class RecipeScores:
    """The results of one recipe's runs: cosines on similarity sets, and scores alone on other suites."""

    seeds: tuple[int, ...]
    """The seed of each row."""
    cosines: dict[str, Array] = field(default_factory=dict)
    """By similarity set: (S, P) cosines of P sentence pairs, a row for each of S seeds."""
    gold: dict[str, Array] = field(default_factory=dict)
    """By similarity set: (P,) gold similarities."""
    scores: Mapping[str, Array] = field(default_factory=dict)
    """By set of another suite, or of one whose cosines were not kept: (S,) main scores × 100."""
    fixed: bool = False
    """Whether the recipe trains nothing: its only row counts for every seed."""

    @cached_property
    def by_set(self) -> dict[str, Array]:
        """(S,) score × 100 of every set."""
        return {name: spearman_rows(self.cosines[name], gold) for name, gold in self.gold.items()} | {**self.scores}

    @cached_property
    def per_seed(self) -> Array:
        """(S,) mean over the sets."""
        return np.mean(list(self.by_set.values()), axis=0)

    @cached_property
    def collapsed(self) -> dict[int, float]:
        """The scores of collapsed runs, by seed: of outliers far below the median of the seeds (Hampel's rule).

        A median absolute deviation times 1.4826 estimates the standard deviation of the runs that did not collapse, if
        these are most of them. With fewer than three seeds no run is an outlier.
        """
        if self.fixed or len(self.seeds) < 3:
            return {}
        below = np.median(self.per_seed) - self.per_seed
        points, deviations = COLLAPSE
        far = below > max(points, deviations * 1.4826 * float(np.median(np.abs(below))))
        return {seed: float(score) for seed, score, out in zip(self.seeds, self.per_seed, far, strict=True) if out}

    @cached_property
    def means(self) -> dict[str, float]:
        """The number of seeds, and the mean over the seeds of every set and of ``mean``, each with its ``sd``."""
        found: dict[str, float] = {"seeds": len(self.per_seed)}
        for name, scores in {**self.by_set, "mean": self.per_seed}.items():
            found |= {name: scores.mean(), f"{name} sd": scores.std(ddof=1) if len(scores) > 1 else np.nan}
        return found

    @cached_property
    def influences(self) -> dict[str, Array]:
        """By similarity set: `pair_influences`, (S, P)."""
        return {name: pair_influences(self.cosines[name], gold) for name, gold in self.gold.items()}


@dataclass(frozen=True)
class Difference:
    """One recipe's mean score minus another's, in points of a score × 100."""

    mean: float
    low: float | None
    """Lower end of the 95 % interval; None without an interval, see `compare`."""
    high: float | None
    """Upper end."""
    p_value: float | None
    """p of the test that belongs to the interval: below `LEVEL` where the interval excludes 0."""
    seeds: int
    """The number of seeds of each recipe, the smaller of the two; 0 where neither is trained."""
    paired: bool = True
    """Whether interval and test are of the differences seed by seed."""
    adjusted: float | None = None
    """The p-value after Holm's correction for all differences of the table; see `holm`."""
    p_equal: float | None = None
    """p of the test against a difference of the margin, below `LEVEL` where the two are equal; see `compare`."""

    @property
    def verdict(self) -> str:
        """The difference in words, for this row alone."""
        if 0 < self.seeds < FEWEST_SEEDS:
            return "looks better" if self.mean > 0 else "looks worse"
        if self.p_value is None:
            return "no verdict without seeds"
        if self.p_value >= LEVEL:
            return "equal" if self.p_equal is not None and self.p_equal < LEVEL else "undecided"
        return "better" if self.mean > 0 else "worse"

    @property
    def marked(self) -> bool:
        """Whether the verdict holds after the correction for all differences of the table as well."""
        return self.verdict in ("better", "worse") and self.adjusted is not None and self.adjusted < LEVEL


def holm(differences: Mapping[str, Difference]) -> dict[str, Difference]:
    """The differences with p-values corrected for their number (Holm 1979).

    With the m p-values in rising order, the i-th becomes max over j ≤ i of (m − j + 1) p_j, at most 1: the chance that
    any of m differences of 0 gets a mark stays below `LEVEL`.
    """
    tested = {name: found.p_value for name, found in differences.items() if found.p_value is not None}
    names = sorted(tested, key=tested.__getitem__)
    factors = np.arange(len(names), 0, -1)
    adjusted = np.minimum(1, np.maximum.accumulate(factors * [tested[name] for name in names])).tolist()
    corrected = dict(zip(names, adjusted, strict=True))
    return {name: replace(found, adjusted=corrected.get(name)) for name, found in differences.items()}


def compare(recipe: RecipeScores, baseline: RecipeScores, margin: float = MARGIN) -> Difference:
    """The difference of two recipes' mean scores, with its 95 % interval and t-test over seeds and sentence pairs.

    The variance of the difference has two parts:

        v = v_seeds + v_pairs
        v_seeds = var_s(d_s) / S   where both ran under the same seeds (d_s: the difference under seed s),
                  var(x) / S_x + var(y) / S_y   otherwise
        v_pairs = the variance, over other sentence pairs, of the part of the difference that all seeds share
        ν = ν_seeds · v / v_seeds,   ν_seeds = S − 1, or Welch's

    and the interval is mean ± the larger one of t(ν) √v and t(ν_seeds) √v_seeds; p is the larger one likewise, as pairs
    make no difference surer. `pair_influences` says how far each pair moves a run's score: the mean product of these
    numbers over any two seeds estimates v_pairs. What pairs change under one seed alone is in v_seeds. ν weighs the
    parts as Cochran and Cox (1950) weigh their quantiles; Satterthwaite's, with (v / v_seeds)², covers too little with
    three seeds. ``benchmarks/coverage.py`` measures this interval. A recipe without training is the same under every
    seed. Sets whose cosines are unknown have no v_pairs.

    Two recipes whose difference is no better or worse than chance are equal where a difference of the margin would be:
    both one-sided t-tests reject it, each by the larger p of the two variances (TOST, Schuirmann 1987).

    There is no interval and no test with one seed, or of two untrained recipes whose cosines are unknown.

    Args:
        recipe: the scores in question.
        baseline: the scores that they are compared with, on the same pairs; `recipe_scores` of finished runs checks it.
        margin: the least difference that would matter, in points.
    """
    first, second = recipe.per_seed, baseline.per_seed
    # under the same seeds, both have the same order of the text and the same noise
    paired = recipe.fixed or baseline.fixed or recipe.seeds == baseline.seeds
    mean = float(first.mean() - second.mean())
    seeds = min([len(one.seeds) for one in (recipe, baseline) if not one.fixed], default=0)
    if seeds == 1 or not (seeds or recipe.gold):
        return Difference(mean, None, None, None, seeds, paired)
    samples = ([first - second] if paired else [first, second]) if seeds else []
    counts = np.array([len(sample) for sample in samples])
    parts = np.array([sample.var(ddof=1) for sample in samples]) / counts
    over_seeds = float(parts.sum())
    variance = over_seeds + _pair_variance(recipe, baseline, paired)
    if variance == 0:
        return Difference(mean, mean, mean, float(mean == 0), seeds, paired, p_equal=float(abs(mean) >= margin))
    variances, freedoms = [variance], [np.inf]
    if over_seeds:
        freedom = over_seeds**2 / float((parts**2 / (counts - 1)).sum())
        variances, freedoms = [over_seeds, variance], [freedom, freedom * variance / over_seeds]
    errors = np.sqrt(variances)
    half = float((scipy.stats.t.isf(LEVEL / 2, freedoms) * errors).max())
    p_value = float(2 * scipy.stats.t.sf(abs(mean) / errors, freedoms).max())
    p_equal = float(scipy.stats.t.sf((margin - abs(mean)) / errors, freedoms).max())
    return Difference(mean, mean - half, mean + half, p_value, seeds, paired, p_equal=p_equal)


def _pair_variance(recipe: RecipeScores, baseline: RecipeScores, paired: bool) -> float:
    """v_pairs of `compare`: of every set, and of their mean."""
    variance = 0.0
    for name, gold in recipe.gold.items():
        first, second = recipe.influences[name], baseline.influences[name]
        if paired:
            shared = _shared(first - second)
        else:
            shared = _shared(first) + _shared(second) - 2 * first.mean(axis=0) @ second.mean(axis=0)
        variance += float(shared) / (len(gold) * (len(gold) - 1))
    return max(variance, 0.0) / len(recipe.by_set) ** 2


def _shared(influences: Array) -> float:
    """The mean product of the influences (S, P) of two different seeds, summed over the pairs; of one seed its own."""
    seeds, own = len(influences), (influences**2).sum()
    return float(own if seeds == 1 else ((influences.sum(axis=0) ** 2).sum() - own) / (seeds * (seeds - 1)))


def spearman_rows(cosines: Array, gold: Array) -> Array:
    """Spearman × 100 of each row: (S, P), (P,) → (S,); ties at their mean rank.

    Raises:
        InputError: for a row or gold scores that are all equal or not finite.
    """
    ranks = scipy.stats.rankdata(np.vstack([cosines, gold]), axis=1)
    if not np.isfinite(cosines).all() or (np.ptp(ranks, axis=1) == 0).any():
        raise InputError("no rank correlation exists: cosines or gold scores are NaN or all equal (a collapsed run?)")
    return 100.0 * np.corrcoef(ranks)[-1, :-1]


def pair_influences(cosines: Array, gold: Array) -> Array:
    """The influence of each pair on Spearman × 100 of each row: (S, P), (P,) → (S, P); every row sums to 0.

    It is the derivative of the correlation by the weight of the pair. With the ranks of cosines and gold scores in
    standard units, a and b, and their correlation ρ, pair i has

        a_i b_i − ρ (a_i² + b_i²) / 2  +  above_i(b − ρ a) / sd(rank a)  +  above_i(a − ρ b) / sd(rank b)

    where above_i sums over the pairs that rank above pair i, pairs of the same rank by half: their ranks depend on it.
    The variance of ρ over other pairs is the mean square of these numbers over P.
    """
    golds = gold[None]
    (ranks, sd), (gold_ranks, gold_sd) = _standard_ranks(cosines), _standard_ranks(golds)
    rho = (ranks * gold_ranks).mean(axis=1, keepdims=True)
    direct = ranks * gold_ranks - rho * (ranks**2 + gold_ranks**2) / 2
    by_cosine = _sums_above(cosines, gold_ranks - rho * ranks) / sd
    by_gold = _sums_above(golds, ranks - rho * gold_ranks) / gold_sd
    return 100.0 * (direct + by_cosine + by_gold)


def _standard_ranks(values: Array) -> tuple[Array, Array]:
    """The ranks of each row in standard units (S, P), and their standard deviations (S, 1)."""
    ranks = scipy.stats.rankdata(values, axis=1)
    deviations = ranks.std(axis=1, keepdims=True)
    return (ranks - ranks.mean(axis=1, keepdims=True)) / deviations, deviations


def _sums_above(values: Array, summands: Array) -> Array:
    """By place, the sum of the row's summands where the value is greater, ties by half; all of a row's sum to 0."""
    sums = np.take_along_axis(summands, values.argsort(axis=1), axis=1).cumsum(axis=1)
    sums = np.pad(sums, ((0, 0), (1, 0)))  # column k: the sum of the k lowest
    below = scipy.stats.rankdata(values, "min", axis=1).astype(int) - 1
    not_above = scipy.stats.rankdata(values, "max", axis=1).astype(int)
    return -(np.take_along_axis(sums, below, axis=1) + np.take_along_axis(sums, not_above, axis=1)) / 2
