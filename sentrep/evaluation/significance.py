"""Whether one recipe is better than another, beyond what another seed would have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from sentrep.errors import InputError

Array = NDArray[np.float64]

_ONE = np.zeros(1, np.int64), np.ones(1, np.int64)
"""What is drawn of a recipe that trains nothing: its row, once."""
LEVEL = 0.05
"""Two-sided level of every test; intervals cover 1 − LEVEL."""
FEWEST_SEEDS = 4
"""Seeds that a verdict needs: fewer say too little about how far seeds scatter."""


@dataclass(frozen=True)
class RecipeScores:
    """What one recipe's runs gave: on similarity sets the cosines, of other suites the scores alone."""

    cosines: dict[str, Array]
    """By similarity set: (S, P) cosines of P sentence pairs, a row for each of S seeds."""
    gold: dict[str, Array]
    """By similarity set: (P,) gold similarities."""
    scores: dict[str, Array] = field(default_factory=dict)
    """By set of another suite: (S,) main scores × 100."""
    seeds: tuple[int, ...] | None = None
    """The seeds of the rows; None numbers them."""
    fixed: bool = False
    """Whether nothing is trained: the only row stands for every seed."""

    def by_set(self) -> dict[str, Array]:
        """(S,) score × 100 of every set."""
        return {name: spearman_rows(self.cosines[name], gold) for name, gold in self.gold.items()} | self.scores

    def per_seed(self) -> Array:
        """(S,) mean over the sets."""
        return np.mean(list(self.by_set().values()), axis=0)

    def drawn_from(self) -> tuple[int, ...]:
        """The seeds that a bootstrap draws from; none where nothing depends on one."""
        if self.fixed:
            return ()
        if self.seeds is not None:
            return self.seeds
        return tuple(range(len(next(iter({**self.cosines, **self.scores}.values())))))

    def paired_with(self, other: RecipeScores) -> bool:
        """Whether both have a score for each of the same seeds, which share the order of the text and the noise."""
        return self.fixed or other.fixed or self.drawn_from() == other.drawn_from()


@dataclass(frozen=True)
class Difference:
    """One recipe's mean score less another's, in points of a score × 100."""

    mean: float
    low: float
    """Lower end of the 95 % bootstrap interval."""
    high: float
    """Upper end."""
    p_value: float | None
    """p of a t-test over seeds: paired by seed as the interval is, or Welch's; None where neither depends on a seed."""
    seeds: int
    """How many seeds each recipe has; the smaller number."""
    paired: bool = True
    """Whether interval and test are of differences seed by seed."""
    adjusted: float | None = None
    """The p-value after Holm's correction for all rows of the table; see `holm`."""

    @property
    def verdict(self) -> str:
        """In words; ``better`` and ``worse`` only where interval and test agree. It is about this row alone."""
        if self.p_value is not None and self.seeds < FEWEST_SEEDS:
            return f"no verdict under {FEWEST_SEEDS} seeds"
        if (self.p_value or 0) >= LEVEL or self.low <= 0 <= self.high:
            return "within seed noise"
        return "better" if self.mean > 0 else "worse"

    @property
    def marked(self) -> bool:
        """Whether the verdict holds after the correction for all rows of the table as well."""
        return self.verdict in ("better", "worse") and self.adjusted is not None and self.adjusted < LEVEL


def holm(differences: Mapping[str, Difference]) -> dict[str, Difference]:
    """The differences with p-values corrected for their number (Holm 1979).

    With the m p-values in rising order, the i-th becomes max over j ≤ i of (m − j + 1) p_j, at most 1: the chance that
    any of m equal recipes gets a mark stays below `LEVEL`.
    """
    tested = sorted((found.p_value, label) for label, found in differences.items() if found.p_value is not None)
    factors = np.arange(len(tested), 0, -1)
    adjusted = np.maximum.accumulate(factors * [p for p, _ in tested]).clip(max=1.0).tolist() if tested else []
    corrected = {label: p for (_, label), p in zip(tested, adjusted, strict=True)}
    return {label: replace(found, adjusted=corrected.get(label)) for label, found in differences.items()}


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
    """The difference of two recipes' mean scores with a bootstrap interval and a t-test.

    Where both ran under the same seeds, both are paired by seed: a seed has the same order of the text and the same
    noise in either recipe. The bootstrap (percentile, both levels at once) draws seeds with replacement, the same for
    both recipes, and sentence pairs with replacement, the same for both: the interval covers other seeds *and* other
    test sentences; of other suites than similarity it covers other seeds. The test asks about seeds alone, whose scores
    it takes for normal, and is of the differences seed by seed. A permutation of five pairs of seeds could not give p
    below 2 / 2⁵ = 0.0625. Under other seeds, they are drawn for each recipe by itself, and the test is Welch's.

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
    gold, scored = recipes[0].gold, recipes[0].scores
    for recipe in recipes:
        _check_same_sets(recipe, recipes[0])
    groups = [recipe.drawn_from() for recipe in recipes]
    means = np.zeros((resamples, len(recipes)))
    rng = np.random.default_rng(seed)
    for draw in range(resamples):
        drawn = {
            group: np.unique(rng.integers(len(group), size=len(group)), return_counts=True) if group else _ONE
            for group in dict.fromkeys(groups)
        }
        for name in gold:
            pairs = rng.integers(len(gold[name]), size=len(gold[name]))
            for place, (recipe, group) in enumerate(zip(recipes, groups, strict=True)):
                seeds, often = drawn[group]
                values = spearman_rows(recipe.cosines[name][np.ix_(seeds, pairs)], gold[name][pairs])
                means[draw, place] += np.average(values, weights=often)
        for place, (recipe, group) in enumerate(zip(recipes, groups, strict=True)):
            seeds, often = drawn[group]
            means[draw, place] += sum(np.average(values[seeds], weights=often) for values in recipe.scores.values())
    return means / (len(gold) + len(scored))


def difference(recipe: RecipeScores, baseline: RecipeScores, draws: Array) -> Difference:
    """As `compare`, with the differences of `bootstrap`'s columns: (resamples,)."""
    scores, reference = recipe.per_seed(), baseline.per_seed()
    low, high = np.quantile(draws, [LEVEL / 2, 1 - LEVEL / 2])
    paired = recipe.paired_with(baseline)
    seeds = [len(found) for found, one in ((scores, recipe), (reference, baseline)) if not one.fixed]
    return Difference(
        mean=float(scores.mean() - reference.mean()),
        low=float(low),
        high=float(high),
        p_value=_p_value(scores, reference, paired) if seeds else None,
        seeds=min(seeds, default=0),
        paired=paired,
    )


def _p_value(first: Array, second: Array, paired: bool) -> float:
    if paired:
        first, second = np.broadcast_arrays(first, second)
    if min(len(first), len(second)) < 2:
        return 1.0
    if np.ptp(first - second) == 0 if paired else np.ptp(first) == np.ptp(second) == 0:  # t is 0 / 0 or infinite
        return float(first[0] == second[0])
    found = scipy.stats.ttest_rel(first, second) if paired else scipy.stats.ttest_ind(first, second, equal_var=False)
    return float(found.pvalue)


def _check_same_sets(first: RecipeScores, second: RecipeScores) -> None:
    names, others = ([*one.gold, *one.scores] for one in (first, second))
    if set(names) != set(others):
        raise InputError(f"recipes were scored on different sets: {sorted(names)} and {sorted(others)}")
    for name, gold in first.gold.items():
        if not np.array_equal(gold, second.gold[name]):
            raise InputError(f"recipes were scored on different pairs of {name}; score them again on the same files")
