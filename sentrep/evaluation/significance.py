"""Whether one recipe is better than another, beyond what another seed would have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from sentrep.errors import InputError

Array = NDArray[np.float64]

LEVEL = 0.05
"""Two-sided level of every test; intervals cover 1 − LEVEL."""
FEWEST_SEEDS = 4
"""Of a verdict: fewer say too little about how far seeds scatter."""


@dataclass(frozen=True)
class RecipeScores:
    """What one recipe's runs gave on similarity sets."""

    cosines: dict[str, Array]
    """By set: (S, P) cosines of P sentence pairs, a row for each of S seeds."""
    gold: dict[str, Array]
    """By set: (P,) gold similarities."""

    def per_seed(self) -> Array:
        """(S,) mean over the sets of Spearman × 100."""
        return np.mean([spearman_rows(self.cosines[name], gold) for name, gold in self.gold.items()], axis=0)


@dataclass(frozen=True)
class Difference:
    """One recipe's mean score less another's, in points of Spearman × 100."""

    mean: float
    low: float
    """Lower end of the 95 % bootstrap interval."""
    high: float
    """Upper end."""
    p_value: float
    """Of a t-test over seeds: paired by seed as the interval is, or Welch's."""
    seeds: int
    """Of each recipe; the smaller number."""

    @property
    def verdict(self) -> str:
        """In words; ``better`` and ``worse`` only where interval and test agree."""
        if self.seeds < FEWEST_SEEDS:
            return f"no verdict under {FEWEST_SEEDS} seeds"
        if self.p_value >= LEVEL or self.low <= 0 <= self.high:
            return "within seed noise"
        return "better" if self.mean > 0 else "worse"


def spearman_rows(cosines: Array, gold: Array) -> Array:
    """Spearman × 100 of each row: (S, P), (P,) → (S,); ties at their mean rank.

    Raises:
        InputError: for a row or gold scores that are all equal or not finite.
    """
    ranks = scipy.stats.rankdata(np.vstack([cosines, gold]), axis=1)
    if not np.isfinite(cosines).all() or (np.ptp(ranks, axis=1) == 0).any():
        raise InputError("no rank correlation exists: cosines or gold scores are NaN or all equal (a collapsed run?)")
    return 100.0 * np.corrcoef(ranks)[-1, :-1]


def compare(recipe: RecipeScores, baseline: RecipeScores, *, resamples: int = 1000, seed: int = 0) -> Difference:
    """The difference of two recipes' mean scores with a paired bootstrap interval and a t-test.

    The bootstrap (percentile, both levels at once) draws seeds with replacement, the same for both recipes where they
    have equally many, and sentence pairs with replacement, the same for both: the interval covers other seeds *and*
    other test sentences. The test asks about seeds alone, whose scores it takes for normal: of the differences seed by
    seed where both recipes have equally many (a seed has the same order of the text and the same noise in each), else
    Welch's. A permutation of five pairs of seeds could not give p below 2 / 2⁵ = 0.0625.

    Args:
        recipe: the scores in question.
        baseline: what they are compared with, on the same sets.
        resamples: of the bootstrap.
        seed: of the bootstrap's draws.

    Raises:
        InputError: for other sets, or other pairs in a set, than the baseline's.
    """
    draws = bootstrap([recipe, baseline], resamples=resamples, seed=seed)
    return difference(recipe, baseline, draws[:, 0] - draws[:, 1])


def bootstrap(recipes: Sequence[RecipeScores], *, resamples: int = 1000, seed: int = 0) -> Array:
    """(resamples, R) mean scores of R recipes on drawn seeds and sentence pairs, as `compare` says.

    Raises:
        InputError: for other sets, or other pairs in a set, than the first recipe's.
    """
    gold = recipes[0].gold
    for recipe in recipes:
        _check_same_sets(recipe.gold, gold)
    counts = [len(next(iter(recipe.cosines.values()))) for recipe in recipes]
    means = np.zeros((resamples, len(recipes)))
    rng = np.random.default_rng(seed)
    for draw in range(resamples):
        drawn = {
            count: np.unique(rng.integers(count, size=count), return_counts=True) for count in dict.fromkeys(counts)
        }
        for name in gold:
            pairs = rng.integers(len(gold[name]), size=len(gold[name]))
            for place, (recipe, count) in enumerate(zip(recipes, counts, strict=True)):
                seeds, often = drawn[count]
                values = spearman_rows(recipe.cosines[name][np.ix_(seeds, pairs)], gold[name][pairs])
                means[draw, place] += np.average(values, weights=often) / len(gold)
    return means


def difference(recipe: RecipeScores, baseline: RecipeScores, draws: Array) -> Difference:
    """As `compare`, with the differences of `bootstrap`'s columns: (resamples,)."""
    scores, reference = recipe.per_seed(), baseline.per_seed()
    low, high = np.quantile(draws, [LEVEL / 2, 1 - LEVEL / 2])
    seeds = min(len(scores), len(reference))
    return Difference(
        mean=float(scores.mean() - reference.mean()),
        low=float(low),
        high=float(high),
        p_value=_p_value(scores, reference) if seeds > 1 else 1.0,
        seeds=seeds,
    )


def _p_value(first: Array, second: Array) -> float:
    paired = len(first) == len(second)
    if np.ptp(first - second) == 0 if paired else np.ptp(first) == np.ptp(second) == 0:  # t is 0 / 0 or infinite
        return float(first[0] == second[0])
    found = scipy.stats.ttest_rel(first, second) if paired else scipy.stats.ttest_ind(first, second, equal_var=False)
    return float(found.pvalue)


def _check_same_sets(first: Mapping[str, Array], second: Mapping[str, Array]) -> None:
    if first.keys() != second.keys():
        raise InputError(f"recipes were scored on different sets: {sorted(first)} and {sorted(second)}")
    for name, gold in first.items():
        if not np.array_equal(gold, second[name]):
            raise InputError(f"recipes were scored on different pairs of {name}; score them again on the same files")
