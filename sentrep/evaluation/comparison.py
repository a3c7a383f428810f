"""Recipes judged: mean ± sd of each, the difference to the baseline, a verdict, a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from sentrep.evaluation.plots.style import BLUE, GREY, ORANGE, new_figure, save_figure, styled
from sentrep.evaluation.published import UNPUBLISHED, Published
from sentrep.evaluation.run_scores import FinishedRun, mean_dose, recipe_scores, training_of
from sentrep.evaluation.significance import FEWEST_SEEDS, LEVEL, MARGIN, Difference, RecipeScores, compare, holm
from sentrep.evaluation.sts import display_name
from sentrep.evaluation.table import show, write_report
from sentrep.io.text import printable

LEAST_DOSE = 1e-4
"""The share of the softmax below which drawn negatives do not act."""
_NOTE = (
    "Spearman × 100 of the cosine, mean ± standard deviation over seeds. Difference: the mean over the sets minus the "
    "baseline's, with its 95 % interval and the p-value of its t-test over seeds and sentence pairs. Better or worse: "
    f"p < {LEVEL}. Equal: a difference of {{}} points is rejected. Otherwise the difference is undecided."
)
_PAIRED = (
    "Interval and test are paired by seed: every recipe ran under the same seeds, and under one seed all recipes have "
    "the same order of the text and the same noise."
)
_UNPAIRED = "Recipes that ran under other seeds than the baseline are not paired with it by seed: {}."
_FEW = (
    f"'looks better' and 'looks worse' are no verdicts, which need {FEWEST_SEEDS} seeds or more. fit --seeds 5 adds "
    "seeds, and keeps finished runs."
)
_MARK = "*: p < 0.05 also after Holm's correction for all rows of the table."
_COLLAPSED = (
    "Collapsed runs, far below the median of their recipe's seeds: {}. Means, intervals and p-values of these recipes "
    "are unreliable: give more seeds, and say how many runs collapsed."
)
_DOSE = (
    "Dose: the mean share of the softmax, and so of the gradient, that the drawn negatives of a row had in training. "
    f"A row below {LEAST_DOSE} is not treated by them, whatever its difference."
)
_NO_ERROR = "The paper prints no error for {}: read a published difference without ± as one seed's."
_TESTED = ("difference", "low", "high", "p", "p holm", "p equal")
_PAPER = ("published", "published sd", "published difference", "published difference sd")


@dataclass(frozen=True)
class Comparison:
    """Recipes, in the order given, and the difference of each to the baseline."""

    recipes: dict[str, RecipeScores]
    baseline: str
    published: Published = UNPUBLISHED
    margin: float = MARGIN
    """The least difference that would matter, in points."""
    doses: Mapping[str, float | None] = field(default_factory=dict)
    """By recipe, `mean_dose`."""
    training: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By recipe, `training_of`."""

    @classmethod
    def read(
        cls,
        runs: Mapping[str, Sequence[FinishedRun]],
        baseline: str | None = None,
        published: Published = UNPUBLISHED,
        margin: float = MARGIN,
    ) -> Comparison:
        """Of finished runs.

        Args:
            runs: of each recipe, by its name.
            baseline: the recipe that the others are compared with; None for the paper's, or else the first.
            published: the numbers of a paper.
            margin: see `Comparison`.

        Raises:
            InputError: two runs do not fit together; it names their files.
        """
        first = next(iter(runs))
        like = runs[first][0]
        recipes = {label: recipe_scores(found, like, label in published.untrained) for label, found in runs.items()}
        doses = {label: mean_dose(found) for label, found in runs.items()}
        baseline = baseline or published.baseline or first
        training = {label: training_of(found, runs[baseline][0]) for label, found in runs.items()}
        return cls(recipes, baseline, published.over(like.sets), margin, doses, training)

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """By recipe, to the baseline, which has none."""
        base = self.recipes[self.baseline]
        others = {label: scores for label, scores in self.recipes.items() if label != self.baseline}
        return holm({label: compare(scores, base, self.margin) for label, scores in others.items()})

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """A row for each recipe: means over seeds and their ``sd``, of each set and of the sets' mean, and the rest.

        Unknown values are missing. A recipe of the paper's table that was not run has the paper's numbers alone.
        """
        measured, paper = list(self.recipes[self.baseline].means), self.published.scores
        rows = []
        for label in {**paper, **self.recipes}:
            row: dict[str, Any] = {"recipe": label, "verdict": "baseline" if label in self.recipes else "absent"}
            row |= self.recipes[label].means if label in self.recipes else {}
            row |= dict(zip(_PAPER, paper.get(label) or (), strict=False))
            if (gap := self.differences.get(label)) is not None:
                tested = (gap.mean, gap.low, gap.high, gap.p_value, gap.adjusted, gap.p_equal)
                row |= {**dict(zip(_TESTED, tested, strict=True)), "marked": gap.marked or None, "verdict": gap.verdict}
            rows.append({**row, "dose": self.doses.get(label)})
        numeric = [*measured, *_TESTED, *_PAPER, "dose"]
        columns = ["recipe", *measured, *_TESTED, "marked", "verdict", *_PAPER, "dose"]
        frame = pd.DataFrame(rows, columns=columns, dtype=object)
        frame = frame.astype({**dict.fromkeys(numeric, float), "seeds": "Int64"}).set_index("recipe", drop=False)
        base, others = frame.loc[self.baseline], frame.drop(self.baseline)
        frame["published difference"] = (others["published"] - base["published"]).round(6)
        frame["published difference sd"] = np.hypot(others["published sd"], base["published sd"])
        unused = [*([] if paper else _PAPER), *(["dose"] if frame["dose"].isna().all() else [])]
        return frame.drop(columns=unused)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each recipe as people read it; all cells are texts."""
        numbers = self.numbers
        columns = {"recipe": numbers["recipe"], "seeds": _texts(numbers["seeds"], "{}")}
        columns |= _with_deviations(numbers, [*self._sets, "mean"]).rename(columns=self._sets)
        ends = _texts(numbers["low"], " [{:+.2f}") + _texts(numbers["high"], ", {:+.2f}]")
        columns["difference"] = _texts(numbers["difference"], "{:+.2f}") + ends + _texts(numbers["marked"], " *")
        columns["p"] = _texts(numbers["p"], "{:.3f}")
        if self.published.scores:
            columns["published"] = _with_deviations(numbers, ["published"])["published"].replace("", "not printed")
            columns |= _with_deviations(numbers, ["published difference"], "{:+.2f}")
        if "dose" in numbers:
            low = (numbers["dose"] < LEAST_DOSE).map({True: " (not treated)", False: ""})
            columns["dose"] = _texts(numbers["dose"], "{:.1e}") + low
        return pd.DataFrame({**columns, "verdict": numbers["verdict"]}, dtype=object)

    @cached_property
    def notes(self) -> list[str]:
        """Explain the test, the pairing, unreliable rows and the paper's numbers, in a sentence or two each."""
        tested = {label: gap for label, gap in self.differences.items() if gap.p_value is not None}
        apart = ", ".join(label for label, gap in tested.items() if not gap.paired)
        collapsed = [
            f"{label} (seed {seed}: {score:.2f})"
            for label, scores in self.recipes.items()
            for seed, score in scores.collapsed.items()
        ]
        found = [_NOTE.format(self.margin)]
        found += [_UNPAIRED.format(apart) if apart else _PAIRED] if tested else []
        few = any(0 < gap.seeds < FEWEST_SEEDS for gap in self.differences.values())
        found += [_FEW] if few else []
        found += [_MARK] if self.numbers["marked"].any() else []
        found += [_COLLAPSED.format(", ".join(collapsed))] if collapsed else []
        found += [_DOSE] if "dose" in self.numbers else []
        if self.published.scores:
            what, sets = self.published.metric.removesuffix("."), ", ".join(self._sets.values())
            found.append(f"Published: {what or 'nothing'}. The scores here are over {sets}.")
            single = [label for label, score in self.published.scores.items() if score and score[1] is None]
            found += [_NO_ERROR.format(", ".join(single))] if single else []
        return found

    def print(self, console: Console | None = None) -> None:
        """The table without the single sets, which would not fit a terminal, and the paper's numbers below it."""
        table, notes = self.table.drop(columns=self._sets.values()), self.notes[1:]
        if self.published.scores:
            paper = ["published", "published difference"]
            show(table.drop(columns=paper), console=console)
            table, notes = table[["recipe", "mean", "difference", *paper]], [self.published.title, *notes]
        show(table, notes, console)

    def write(self, folder: Path) -> None:
        """Write report.md, .tex, .csv, .json, .png and .svg."""
        picture, _ = save_figure(self.figure(), folder / "report")
        notes = list(self.notes)
        for label, made in self.training.items():
            words = ", ".join(f"{what} {text}" for what, text in made.items())
            notes.append(f"{label}: {words or 'not trained'}.")
        content = (self.table, self.numbers, self.record(), notes, self.published.title, picture.name)
        for ending in (".md", ".tex", ".csv", ".json"):
            write_report(folder / f"report{ending}", *content)

    def record(self) -> dict[str, Any]:
        """The numbers of every recipe that was run, and the scores of its seeds, as JSON."""
        numbers = self.numbers.drop(columns="recipe").dropna(subset="mean").astype(object)
        rows = numbers.where(numbers.notna(), None).to_dict("index")
        for label, scores in self.recipes.items():
            rows[label]["sets"] = {name: found.tolist() for name, found in scores.by_set.items()}
            rows[label] |= self.training.get(label, {})
        about = {"title": self.published.title, "metric": self.published.metric, "margin": self.margin}
        return {**about, "rows": rows}

    def figure(self) -> Figure:
        """Seeds and means (above), and differences to the baseline with 95 % intervals, orange without 0 (below)."""
        rows = self.numbers.dropna(subset="mean")
        heights, colours = range(len(rows)), np.where(rows["p"] < LEVEL, ORANGE, GREY)
        printed = ", published ◇" if self.published.scores else ""
        with styled():
            figure = new_figure(1.2 + 0.36 * len(rows))
            upper, lower = figure.subplots(2, 1, sharey=True)
            for height, scores in zip(heights, map(self.recipes.__getitem__, rows.index), strict=True):
                upper.plot(scores.per_seed, [height] * len(scores.seeds), "o", color=GREY, markersize=3, alpha=0.8)
            upper.plot(rows["mean"], heights, "|", color=BLUE, markersize=11, markeredgewidth=1.8, zorder=3)
            if printed:
                upper.plot(rows["published"], heights, "D", color=ORANGE, fillstyle="none", markersize=5, zorder=4)
            lower.hlines(heights, rows["low"], rows["high"], colors=colours, linewidth=1.4)
            lower.scatter(rows["difference"], heights, s=16, c=colours, zorder=2)
            lower.axvline(0, color="black", linewidth=0.6)
            upper.set_yticks(heights, [printable(label) for label in rows.index])
            upper.set_ylim(len(rows) - 0.5, -0.5)
            upper.set_xlabel(f"Spearman × 100: seeds ●, mean |{printed}")
            lower.set_xlabel(f"difference to {self.baseline}, 95 % interval")
        return figure

    @cached_property
    def _sets(self) -> dict[str, str]:
        """The printed names of the sets."""
        return {name: display_name(name) for name in self.recipes[self.baseline].by_set}


def _texts(numbers: Any, form: str) -> Any:
    """Numbers of a series or frame as texts; unknown numbers are empty."""
    return numbers.map(form.format, na_action="ignore").astype(object).fillna("")


def _with_deviations(numbers: pd.DataFrame, names: list[str], form: str = "{:.2f}") -> pd.DataFrame:
    """Means as ``74.80 ± 1.12``, or without an unknown deviation."""
    deviations = numbers[[f"{name} sd" for name in names]].set_axis(names, axis="columns")
    return _texts(numbers[names], form) + _texts(deviations, " ± {:.2f}")
