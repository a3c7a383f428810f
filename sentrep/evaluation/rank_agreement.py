"""Whether recipes stand in the order that a paper printed: as a whole, and pair by pair."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from sentrep.evaluation.significance import LEVEL, Array, Difference, RecipeScores, difference

FEWEST_ROWS = 3
"""Two rows have one order, and chance gives it half of the time."""
ORDERS = ("holds", "turns around", "cannot be told")
_PLURALS = ("hold", "turn around", "cannot be told")
_PERMUTATIONS = 50_000
"""All of them up to eight rows; that many drawn ones for more."""


@dataclass(frozen=True)
class RankAgreement:
    """Our ranking of a table's rows beside the paper's."""

    labels: tuple[str, ...]
    """The rows that are ranked."""
    spearman: float
    """Rank correlation of our mean scores and the published ones, ties at their mean rank: −1 … 1."""
    low: float
    """Lower end of the 95 % bootstrap interval over seeds and sentence pairs."""
    high: float
    """Upper end."""
    p_value: float
    """One-sided: how often rows in a random order would agree with the paper as well as ours, or better."""
    orders: Mapping[tuple[str, str], str]
    """By pair of rows, the one with the higher published score first: one of `ORDERS`."""

    def correlation(self) -> str:
        """As a picture and a report print it."""
        interval = f"[{self.low:.2f}, {self.high:.2f}]"
        return f"Spearman {self.spearman:.2f} {interval} over {len(self.labels)} rows, one-sided p = {self.p_value:.3g}"

    def sentences(self) -> str:
        """The correlation, and the orderings counted."""
        counts = Counter(self.orders.values())
        found = (f"{counts[order]} {plural}" for order, plural in zip(ORDERS, _PLURALS, strict=True))
        return f"{self.correlation()}. Of {len(self.orders)} published orderings of two rows {', '.join(found)}."


def agreement(
    recipes: Mapping[str, RecipeScores], published: Mapping[str, float], draws: Mapping[str, Array]
) -> RankAgreement | None:
    """Compare rankings; None under `FEWEST_ROWS` rows, or where all are equal.

    Args:
        recipes: scores by label.
        published: the paper's means, by the labels that are to be ranked.
        draws: by label, mean scores on the same (resamples,) drawn seeds and sentence pairs.
    """
    labels = [label for label in recipes if label in published]
    theirs = np.array([published[label] for label in labels])
    ours = np.array([recipes[label].per_seed().mean() for label in labels])
    if len(labels) < FEWEST_ROWS or np.ptp(theirs) == 0 or np.ptp(ours) == 0:
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
    drawn = spearman(np.stack([draws[label] for label in labels], axis=1))
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    orders = {
        (upper, lower): order(difference(recipes[upper], recipes[lower], draws[upper] - draws[lower]), 1.0)
        for upper, lower in itertools.permutations(labels, 2)
        if published[upper] > published[lower]
    }
    return RankAgreement(tuple(labels), float(test.statistic), float(low), float(high), float(test.pvalue), orders)


def order(ours: Difference, published: float) -> str:
    """What our difference of two rows says about the published one, which is not 0."""
    if ours.verdict not in ("better", "worse"):
        return "cannot be told"
    return "holds" if (ours.mean > 0) == (published > 0) else "turns around"


def with_released(labels: Sequence[str], released: Mapping[str, str]) -> list[str]:
    """The labels to rank when the readings of released code stand in the place of the paper's.

    Args:
        labels: of the rows with published numbers.
        released: by label of such a reading, the row of the paper that it is another reading of; the first counts.
    """
    places = {paper: label for label, paper in reversed([*released.items()]) if label in labels}
    return list(dict.fromkeys(places.get(released.get(label, label), label) for label in labels))
