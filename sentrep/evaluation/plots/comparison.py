"""The picture of a comparison: every seed of every recipe, and the differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sentrep.evaluation.plots.style import BLUE, GREY, ORANGE, PAGE, new_figure, save_figure, styled
from sentrep.evaluation.significance import Difference, RecipeScores
from sentrep.io.harmless import printable


def plot_comparison(
    recipes: Mapping[str, RecipeScores],
    differences: Mapping[str, Difference],
    stem: Path,
    published: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Draw seeds and means (left), and differences to the first recipe with 95 % intervals (right).

    Args:
        recipes: by label; the first is the baseline.
        differences: by label, without the first; may be empty.
        stem: the files to write, without .png and .svg.
        published: means that a paper printed, by label.
    """
    labels = list(recipes)
    with styled():
        figure = new_figure(0.9 + 0.24 * len(labels), PAGE)
        left, right = figure.subplots(1, 2, sharey=True)
        for height, label in enumerate(labels):
            scores = recipes[label].per_seed()
            left.plot(scores, [height] * len(scores), "o", color=GREY, markersize=3, alpha=0.8, zorder=2)
            left.plot(scores.mean(), height, "|", color=BLUE, markersize=11, markeredgewidth=1.8, zorder=3)
            if label in published:
                left.plot(published[label], height, "D", color=ORANGE, fillstyle="none", markersize=5, zorder=4)
            if label in differences:
                found = differences[label]
                colour = GREY if found.low <= 0 <= found.high else ORANGE
                right.plot([found.low, found.high], [height, height], color=colour, linewidth=1.4)
                right.plot(found.mean, height, "o", color=colour, markersize=4)
        right.axvline(0, color="black", linewidth=0.6)
        left.set_yticks(range(len(labels)), [printable(label) for label in labels])
        left.set_ylim(len(labels) - 0.5, -0.5)
        beside = "; ◇ published" if published else ""
        left.set_xlabel(f"mean Spearman × 100 (each seed, and their mean{beside})")
        right.set_xlabel(f"difference to {labels[0]}, 95 % interval")
    save_figure(figure, stem)
