"""Whether recipes rank as in a paper: as a whole, and pair by pair."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.stats

from sentrep.evaluation.published import Published
from sentrep.evaluation.significance import LEVEL, Array, Difference, RecipeScores, compare, holm

ORDERS = ("holds", "turns around", "cannot be told")
_PLURALS = ("hold", "turn around", "cannot be told")
_PERMUTATIONS = 50_000
"""With up to eight rows all permutations are used, with more rows so many random ones."""


@dataclass(frozen=True)
class Order:
    """A published ordering of two rows, and whether ours confirms it."""

    found: str
    """One of `ORDERS`."""
    published_p: float | None
    """`Published.p_value`."""

    @property
    def supported(self) -> bool | None:
        """Whether the paper's own numbers support the ordering; None if the paper prints too little for a test."""
        return None if self.published_p is None else self.published_p < LEVEL

    def __str__(self) -> str:
        return "not supported" if self.supported is False else self.found


@dataclass(frozen=True)
class RankAgreement:
    """Our ranking of a table's rows beside the paper's."""

    labels: tuple[str, ...]
    """The ranked rows."""
    spearman: float
    """Rank correlation of our mean scores and the published ones, ties at their mean rank: −1 … 1."""
    p_value: float
    """One-sided: the chance that rows in random order agree with the paper at least as well as ours."""
    orders: Mapping[tuple[str, str], Order]
    """By pair of rows; the row with the higher published score comes first."""

    def record(self) -> dict[str, Any]:
        """The agreement for JSON; a pair of rows is ``upper > lower``."""
        return {**asdict(self), "orders": {" > ".join(pair): asdict(order) for pair, order in self.orders.items()}}

    def correlation(self) -> str:
        """The correlation for a picture or a report."""
        return f"Spearman {self.spearman:.2f} over {len(self.labels)} rows, one-sided p = {self.p_value:.3g}"

    def sentences(self) -> str:
        """The correlation, and the counts of the orderings that the paper's own ± supports."""
        orders = self.orders.values()
        beyond, bare, within = ([one for one in orders if one.supported is kind] for kind in (True, None, False))
        counts = [
            f"{len(chosen)} {what}: {_counted(chosen)}"
            for chosen, what in ((beyond, "beyond the paper's own ±"), (bare, "without a test of the paper's own"))
            if chosen
        ]
        counts += [f"{len(within)} within the paper's own ±: not counted"] if within else []
        return f"{self.correlation()}. Of {len(orders)} published orderings of two rows {'; '.join(counts)}."


def _counted(orders: Iterable[Order]) -> str:
    counts = Counter(one.found for one in orders)
    return ", ".join(f"{counts[order]} {plural}" for order, plural in zip(ORDERS, _PLURALS, strict=True))


def agreement(recipes: Mapping[str, RecipeScores], published: Published, labels: Sequence[str]) -> RankAgreement | None:
    """Compare the rankings of these rows; None if all means of the paper, or all of ours, are equal.

    Every pair of rows is tested, with Holm's correction for the number of pairs.

    Args:
        recipes: scores by label.
        published: the paper's numbers.
        labels: the rows to rank; those without scores are left out.
    """
    labels = [label for label in recipes if label in labels]
    means = published.means()
    theirs = np.array([means[label] for label in labels])
    ours = np.array([recipes[label].per_seed.mean() for label in labels])
    if len(labels) < 2 or np.ptp(theirs) == 0 or np.ptp(ours) == 0:
        return None
    ranks = scipy.stats.zscore(scipy.stats.rankdata(theirs))

    def spearman(scores: Array, axis: int = -1) -> Array:
        return np.mean(scipy.stats.zscore(scipy.stats.rankdata(scores, axis=axis), axis=axis) * ranks, axis=axis)

    test = scipy.stats.permutation_test(
        (ours,),
        spearman,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=_PERMUTATIONS,
        alternative="greater",
        rng=0,
    )
    pairs = [pair if means[pair[0]] >= means[pair[1]] else pair[::-1] for pair in itertools.combinations(labels, 2)]
    differences = holm({(upper, lower): compare(recipes[upper], recipes[lower]) for upper, lower in pairs})
    orders = {
        (upper, lower): Order(_order(found), published.p_value(upper, lower))
        for (upper, lower), found in differences.items()
        if means[upper] > means[lower]
    }
    return RankAgreement(tuple(labels), float(test.statistic), float(test.pvalue), orders)


def _order(found: Difference) -> str:
    """The result of our difference of two rows; the row with the higher published score comes first."""
    if not found.marked:
        return "cannot be told"
    return "holds" if found.mean > 0 else "turns around"
