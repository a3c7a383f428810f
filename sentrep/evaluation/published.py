"""The published numbers of a paper's table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

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
            mean, deviation = np.array([self.sets[label][name] for name in sets], float).mean(axis=0).round(6).tolist()
            means[label] = (mean, None if np.isnan(deviation) else deviation)
        named = ", ".join(map(display_name, sets))
        metric = f"{named} of the paper, averaged as here (its own average: {self.metric.removesuffix('.')})"
        return replace(self, metric=metric, scores={**self.scores, **means}, sets={})


UNPUBLISHED = Published()
"""The published numbers of recipes that no paper compares: none."""
