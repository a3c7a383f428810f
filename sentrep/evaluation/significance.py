"""Whether one recipe is better than another, beyond what another seed would have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from sentrep.errors import InputError

Array = NDArray[np.float64]

LEVEL = 0.05
"""Two-sided level of every test; intervals cover 1 − LEVEL."""
FEWEST_SEEDS = 4
"""With three seeds each, the smallest p-value that a permutation of seeds can give is 0.1."""


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
    """Of a permutation of the seeds' scores between the two recipes."""
    seeds: int
    """Of each recipe; the smaller number."""

    @property
    def verdict(self) -> str:
        """In words; ``better`` and ``worse`` only where interval and permutation test agree."""
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
    """The difference of two recipes' mean scores with a paired bootstrap interval and a permutation test.

    The bootstrap (percentile, both levels at once) draws seeds with replacement, the same for both recipes where they
    have equally many, and sentence pairs with replacement, the same for both: the interval covers other seeds *and*
    other test sentences. The permutation test exchanges seeds between the recipes, all of them where there are few
    (`scipy.stats.permutation_test`), and asks about seeds alone.

    Args:
        recipe: the scores in question.
        baseline: what they are compared with, on the same sets.
        resamples: of the bootstrap.
        seed: of the bootstrap's draws.

    Raises:
        InputError: for other sets, or other pairs in a set, than the baseline's.
    """
    _check_same_sets(recipe.gold, baseline.gold)
    scores, reference = recipe.per_seed(), baseline.per_seed()
    draws = _bootstrap(recipe, baseline, resamples, np.random.default_rng(seed))
    low, high = np.quantile(draws, [LEVEL / 2, 1 - LEVEL / 2])
    seeds = min(len(scores), len(reference))
    return Difference(
        mean=float(scores.mean() - reference.mean()),
        low=float(low),
        high=float(high),
        p_value=_permutation_p_value(scores, reference) if seeds > 1 else 1.0,
        seeds=seeds,
    )


def _bootstrap(recipe: RecipeScores, baseline: RecipeScores, resamples: int, rng: np.random.Generator) -> Array:
    """(resamples,) differences of mean scores."""
    counts = [len(next(iter(scores.cosines.values()))) for scores in (recipe, baseline)]
    differences = np.zeros(resamples)
    for draw in range(resamples):
        mine = rng.integers(counts[0], size=counts[0])
        theirs = mine if counts[0] == counts[1] else rng.integers(counts[1], size=counts[1])
        for name, gold in recipe.gold.items():
            pairs = rng.integers(len(gold), size=len(gold))
            for sign, scores, chosen in ((1, recipe, mine), (-1, baseline, theirs)):
                seeds, often = np.unique(chosen, return_counts=True)
                values = spearman_rows(scores.cosines[name][np.ix_(seeds, pairs)], gold[pairs])
                differences[draw] += sign * np.average(values, weights=often) / len(recipe.gold)
    return differences


def _permutation_p_value(first: Array, second: Array) -> float:
    def difference(x: Array, y: Array, axis: int) -> Array:
        return np.asarray(np.mean(x, axis=axis) - np.mean(y, axis=axis))

    if np.ptp([*first, *second]) == 0:
        return 1.0
    return float(scipy.stats.permutation_test((first, second), difference, vectorized=True, rng=0).pvalue)


def _check_same_sets(first: Mapping[str, Array], second: Mapping[str, Array]) -> None:
    if first.keys() != second.keys():
        raise InputError(f"recipes were scored on different sets: {sorted(first)} and {sorted(second)}")
    for name, gold in first.items():
        if not np.array_equal(gold, second[name]):
            raise InputError(f"recipes were scored on different pairs of {name}; score them again on the same files")
