"""The published numbers of a paper's table, and the orderings that they support."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.stats

from sentrep.evaluation.sts import display_name

Printed = tuple[float, float | None]
"""A mean, and the standard deviation over seeds where the paper prints one."""


@dataclass(frozen=True)
class Published:
    """The published numbers of the recipes that are compared."""

    title: str = "Comparison"
    """The title of the paper's table."""
    metric: str = ""
    """The quantity, as a sentence."""
    scores: Mapping[str, Printed | None] = field(default_factory=dict)
    """By recipe; None where nothing is printed."""
    sets: Mapping[str, Mapping[str, Printed]] = field(default_factory=dict)
    """The numbers that the paper prints for single sets, by recipe and set."""
    seeds: int | None = None
    """How many seeds each mean with a standard deviation is over; None where the paper does not say."""
    released: Mapping[str, str] = field(default_factory=dict)
    """Readings of released code, each with the recipe of the paper that it reads differently."""
    untrained: Collection[str] = ()
    """Recipes without training: one run counts for every seed."""
    baseline: str | None = None
    """The recipe that all others are compared with; by default the first one."""

    def over(self, sets: Sequence[str]) -> Published:
        """The means over these sets, if the paper prints the sets for every row that has a number; otherwise unchanged.

        Papers do not print the standard deviation of such a mean. Its upper bound is used: the mean of the sets' own.
        """
        rows = [label for label, score in self.scores.items() if score is not None]
        if not rows or not all(set(sets) <= self.sets.get(label, {}).keys() for label in rows):
            return self
        means: dict[str, Printed] = {}
        for label in rows:
            found, deviations = zip(*(self.sets[label][name] for name in sets), strict=True)
            known = [deviation for deviation in deviations if deviation is not None]
            deviation = round(float(np.mean(known)), 6) if len(known) == len(sets) else None
            means[label] = (round(float(np.mean(found)), 6), deviation)
        named = ", ".join(map(display_name, sets))
        metric = f"{named} of the paper, averaged as here (its own average: {self.metric.removesuffix('.')})"
        return replace(self, metric=metric, scores={**self.scores, **means}, sets={})

    def means(self) -> dict[str, float]:
        """The published means of the recipes that have one."""
        return {label: score[0] for label, score in self.scores.items() if score is not None}

    def ranked(self) -> dict[str, list[str]]:
        """By reading, the recipes of its ranking: each published number occurs once."""
        labels = list(self.means())
        paper = {"paper": [label for label in labels if label not in self.released]}
        readings = self.released.keys() & labels
        return {**paper, "released": with_released(labels, self.released)} if readings else paper

    def p_value(self, first: str, second: str) -> float | None:
        """p of Welch's test of two rows' published means; None if the paper prints too little for a test.

        The test assumes the population's standard deviation (divided by the number of seeds); for the sample's standard
        deviation it is conservative. A row without training has no error.
        """
        means, deviations = zip(*map(self._printed, (first, second)), strict=True)
        if self.seeds is None or None in deviations:
            return None
        if not any(deviations):
            return float(means[0] == means[1])
        sample = [deviation * np.sqrt(self.seeds / (self.seeds - 1)) for deviation in deviations]
        test = scipy.stats.ttest_ind_from_stats(
            means[0], sample[0], self.seeds, means[1], sample[1], self.seeds, equal_var=False
        )
        return float(test.pvalue)

    def _printed(self, label: str) -> Printed:
        mean, deviation = self.scores[label] or (np.nan, None)
        return mean, 0.0 if deviation is None and label in self.untrained else deviation


UNPUBLISHED = Published()
"""The published numbers of recipes that no paper compares: none."""


def with_released(labels: Sequence[str], released: Mapping[str, str]) -> list[str]:
    """The labels to rank when readings of released code replace the paper's.

    Args:
        labels: of the rows with published numbers.
        released: by label of such a reading, the paper's row of the same number; of several readings the first counts.
    """
    places = {paper: label for label, paper in reversed([*released.items()]) if label in labels}
    return list(dict.fromkeys(places.get(released.get(label, label), label) for label in labels))
