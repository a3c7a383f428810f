"""The pictures of a comparison: every seed of every recipe, differences with their intervals, ours beside a paper's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from sentrep.evaluation.plots.style import BLUE, GREY, ORANGE, PAGE, new_figure, save_figure, styled
from sentrep.evaluation.significance import LEVEL, Difference, RecipeScores
from sentrep.reports.text import printable

_LINE = 0.12
"""Inches of a name's line."""
_LEADER = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 3, "relpos": (0, 0.5)}


def plot_comparison(
    recipes: Mapping[str, RecipeScores],
    differences: Mapping[str, Difference],
    stem: Path,
    published: Mapping[str, float] = MappingProxyType({}),
    measure: str = "Spearman",
) -> None:
    """Draw seeds and means (left), and differences to the baseline with 95 % intervals, orange without 0 (right).

    Args:
        recipes: by label.
        differences: by label, without the baseline.
        stem: the files to write, without .png and .svg.
        published: means that a paper printed, by label.
        measure: name of the scores.
    """
    labels = list(recipes)
    with styled():
        figure = new_figure(0.9 + 0.24 * len(labels), PAGE)
        left, right = figure.subplots(1, 2, sharey=True)
        for height, label in enumerate(labels):
            scores = recipes[label].per_seed
            left.plot(scores, [height] * len(scores), "o", color=GREY, markersize=3, alpha=0.8, zorder=2)
            left.plot(scores.mean(), height, "|", color=BLUE, markersize=11, markeredgewidth=1.8, zorder=3)
            if label in published:
                left.plot(published[label], height, "D", color=ORANGE, fillstyle="none", markersize=5, zorder=4)
            if label in differences:
                found = differences[label]
                colour = ORANGE if found.p_value is not None and found.p_value < LEVEL else GREY
                right.plot(found.mean, height, "o", color=colour, markersize=4)
                if found.low is not None and found.high is not None:
                    right.plot([found.low, found.high], [height, height], color=colour, linewidth=1.4)
        right.axvline(0, color="black", linewidth=0.6)
        baseline = next(label for label in labels if label not in differences)
        left.set_yticks(range(len(labels)), [printable(label) for label in labels])
        left.set_ylim(len(labels) - 0.5, -0.5)
        beside = "; ◇ published" if published else ""
        left.set_xlabel(f"mean {measure} × 100 (each seed, and their mean{beside})")
        right.set_xlabel(f"difference to {baseline}, 95 % interval")
    save_figure(figure, stem)


def plot_beside_published(
    recipes: Mapping[str, RecipeScores],
    published: Mapping[str, float],
    stem: Path,
    title: str,
    released: Collection[str] = (),
) -> None:
    """Draw our mean ± standard deviation over the published number, a point and a name for each row.

    Args:
        recipes: by label; those without a published number are left out.
        published: means that a paper printed, by label.
        stem: the files to write, without .png and .svg.
        title: to stand above.
        released: rows that are readings of released code; their points are hollow.
    """
    scores = {label: found.per_seed for label, found in recipes.items() if label in published}
    with styled():
        height = max(2.0, _LINE * len(scores))
        figure = new_figure(height + 0.6, PAGE)
        axes = figure.subplots()
        for label, found in scores.items():
            colour, fill = (ORANGE, "white") if label in released else (BLUE, BLUE)
            deviation = found.std(ddof=1) if len(found) > 1 else 0.0
            point = axes.errorbar(published[label], found.mean(), deviation, color=colour, elinewidth=0.8)
            point.lines[0].set(marker="o", markersize=4, markerfacecolor=fill)
        hollow = "; ○ as the released code does it" if any(label in released for label in scores) else ""
        axes.set_xlabel(f"published{hollow}")
        axes.set_ylabel("here: mean ± sd over seeds")
        axes.set_title(title)
        heights = {label: found.mean() for label, found in scores.items()}
        low, high = axes.get_ylim()
        for label, place in _spread(heights, low, high, (high - low) * _LINE / height).items():
            axes.annotate(
                printable(label),
                (published[label], heights[label]),
                (1.03, (place - low) / (high - low)),
                textcoords="axes fraction",
                va="center",
                arrowprops=_LEADER,
            )
    save_figure(figure, stem)


def _spread(heights: Mapping[str, float], low: float, high: float, gap: float) -> dict[str, float]:
    """Heights in the same order, from low to high, no closer than the gap, and as near to the given ones as can be."""
    labels = sorted(heights, key=heights.__getitem__)
    steps = gap * np.arange(len(labels))
    free = np.array([heights[label] for label in labels]) - steps
    free = (np.maximum.accumulate(free) + np.minimum.accumulate(free[::-1])[::-1]) / 2  # in order, and in the middle
    return dict(zip(labels, np.clip(free, low, high - steps[-1]) + steps, strict=True))
