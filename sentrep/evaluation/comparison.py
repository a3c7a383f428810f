"""Recipes judged: mean ± sd of each, the difference to the baseline, a verdict, a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from sentrep.evaluation.plots.comparison import draw_comparison
from sentrep.evaluation.plots.style import save_figure
from sentrep.evaluation.published import UNPUBLISHED, Published
from sentrep.evaluation.run_scores import FinishedRun, finished_runs, mean_dose, recipe_scores
from sentrep.evaluation.significance import LEVEL, MARGIN, Difference, RecipeScores, compare, holm
from sentrep.evaluation.sts import display_name
from sentrep.evaluation.table import report_text, show, write_report
from sentrep.io.text import markdown_text

Format = Literal["latex", "csv", "markdown"]
ENDINGS = {"latex": ".tex", "csv": ".csv", "markdown": ".md"}

LEAST_DOSE = 1e-4
"""The share of the softmax below which drawn negatives do not act."""
_NOTE = (
    "Spearman × 100 of the cosine, mean ± standard deviation over seeds. Difference: the mean over the sets minus the "
    "baseline's, with its 95 % interval and the p-value of its t-test over {over}. Better or worse: p < {level}. "
    "Equal: a difference of {margin} points is rejected. Otherwise the difference cannot be told."
)
_PAIRED = (
    "Interval and test are paired by seed: every recipe ran under the same seeds, and under one seed all recipes have "
    "the same order of the text and the same noise."
)
_UNPAIRED = "Recipes that ran under other seeds than the baseline are not paired with it by seed: {}."
_MARK = "*: p < 0.05 also after Holm's correction for all rows of the table."
_COLLAPSED = (
    "Collapsed runs, far below the median of their recipe's seeds: {}. Means, intervals and p-values of these recipes "
    "are unreliable: give more seeds, and say how many runs collapsed."
)
_DOSE = (
    "Dose: the mean share of the softmax, and so of the gradient, that the drawn negatives of a row had in training. "
    "A row below {} is not treated by them, whatever its difference."
)
_NO_ERROR = "The paper prints no error for {}: read a published difference without ± as one seed's."
_BESIDE = ("published", "published difference")
"""Columns that only a comparison with a paper has."""
_TESTED = ("difference", "low", "high", "p", "p holm", "p equal")
"""Numbers of a difference, which the baseline has not."""


@dataclass(frozen=True)
class Comparison:
    """Recipes, in the order given."""

    recipes: dict[str, RecipeScores]
    differences: dict[str, Difference]
    """By recipe, to the baseline, which has none."""
    published: Published = UNPUBLISHED
    margin: float = MARGIN
    doses: Mapping[str, float] = field(default_factory=dict)
    """Of the recipes that drew negatives: `mean_dose`."""

    @classmethod
    def read(
        cls,
        folders: Mapping[str, Path],
        baseline: str | None = None,
        published: Published = UNPUBLISHED,
        margin: float = MARGIN,
    ) -> Comparison:
        """Of finished runs.

        Args:
            folders: by recipe, of its runs.
            baseline: the recipe that the others are compared with; None for the paper's, or else the first.
            published: the numbers of a paper.
            margin: the least difference that would matter.

        Raises:
            InputError: a folder has no runs, or two runs do not fit together; it names their files.
        """
        runs = {label: finished_runs(folder) for label, folder in folders.items()}
        like: FinishedRun = next(iter(runs.values()))[0]
        recipes = {label: recipe_scores(found, like, label in published.untrained) for label, found in runs.items()}
        doses = {label: share for label, found in runs.items() if (share := mean_dose(found)) is not None}
        return cls.of(recipes, baseline, published, margin, doses)

    @classmethod
    def of(
        cls,
        recipes: dict[str, RecipeScores],
        baseline: str | None = None,
        published: Published = UNPUBLISHED,
        margin: float = MARGIN,
        doses: Mapping[str, float] = MappingProxyType({}),
    ) -> Comparison:
        """Compare the scores of recipes; arguments as in `read`.

        Raises:
            InputError: for recipes that were scored on different pairs.
        """
        first = baseline or published.baseline or next(iter(recipes))
        others = {label: scores for label, scores in recipes.items() if label != first}
        differences = {label: compare(scores, recipes[first], margin) for label, scores in others.items()}
        return cls(recipes, holm(differences), published.over(list(recipes[first].by_set)), margin, doses)

    @property
    def baseline(self) -> str:
        """The recipe that the others are compared with."""
        return next(label for label in self.recipes if label not in self.differences)

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """A row for each recipe: means over seeds and their ``sd``, of each set and of the sets' mean, and the rest.

        Unknown values are missing. A recipe of the paper's table that was not run has the paper's numbers alone.
        """
        rows: list[dict[str, Any]] = []
        for label in {**self.published.scores, **self.recipes}:
            rows.append({"recipe": label, "verdict": "absent"})
            if (scores := self.recipes.get(label)) is not None:
                rows[-1] |= {**scores.means, "verdict": "baseline"}
            if (gap := self.differences.get(label)) is not None:
                tested = (gap.mean, gap.low, gap.high, gap.p_value, gap.adjusted, gap.p_equal)
                rows[-1] |= dict(zip(_TESTED, tested, strict=True))
                rows[-1] |= {"marked": gap.marked or None, "verdict": gap.verdict}
        measured = list(next(iter(self.recipes.values())).means)
        frame = pd.DataFrame(rows, columns=["recipe", *measured, *_TESTED, "marked", "verdict"], dtype=object)
        frame = frame.set_index("recipe", drop=False)
        frame = frame.astype({**dict.fromkeys([*measured, *_TESTED], float), "seeds": "Int64"})
        if self.published.scores:
            printed = [self.published.scores.get(label) or (None, None) for label in frame.index]
            frame[["published", "published sd"]] = np.array(printed, dtype=float)
            others = frame[["published", "published sd"]].drop(self.baseline)
            base = frame.loc[self.baseline, ["published", "published sd"]].astype(float)
            frame["published difference"] = (others["published"] - base["published"]).round(6)
            frame["published difference sd"] = np.hypot(others["published sd"], base["published sd"])
        if self.doses:
            frame["dose"] = pd.Series(dict(self.doses), dtype=float)
        return frame

    def table(self, sets: bool = False) -> pd.DataFrame:
        """A row for each recipe as people read it, with a column for each set on demand; all cells are texts."""
        numbers = self.numbers
        seeds = numbers["seeds"].astype("string").fillna("")
        columns: dict[str, Any] = {"recipe": numbers["recipe"], "seeds": seeds}
        if sets:
            columns |= {display_name(name): _with_deviations(numbers, name) for name in self._sets()}
        columns["mean"] = _with_deviations(numbers, "mean")
        columns["difference"] = [_with_interval(row) for row in numbers.to_dict("records")]
        columns["p"] = _formatted(numbers["p"], "{:.3f}")
        if self.published.scores:
            columns["published"] = [text or "not printed" for text in _with_deviations(numbers, "published")]
            columns["published difference"] = _with_deviations(numbers, "published difference", "{:+.2f}")
        if self.doses:
            texts = zip(_formatted(numbers["dose"], "{:.1e}"), numbers["dose"] < LEAST_DOSE, strict=True)
            columns["dose"] = [f"{text} (not treated)" if low else text for text, low in texts]
        columns["verdict"] = numbers["verdict"]
        return pd.DataFrame(columns, dtype=object).reset_index(drop=True)

    def notes(self) -> list[str]:
        """Explain the test, the pairing, unreliable rows and the paper's numbers, in a sentence or two each."""
        tested = {label: found for label, found in self.differences.items() if found.p_value is not None}
        apart = [label for label, found in tested.items() if not found.paired]
        runs = [
            f"{label} (" + ", ".join(f"seed {seed}: {score:.2f}" for seed, score in scores.collapsed.items()) + ")"
            for label, scores in self.recipes.items()
            if scores.collapsed
        ]
        cosines = any(scores.cosines for scores in self.recipes.values())
        over = "seeds and sentence pairs" if cosines else "seeds"
        found = [_NOTE.format(over=over, margin=self.margin, level=LEVEL)]
        found += [_UNPAIRED.format(", ".join(apart)) if apart else _PAIRED] if tested else []
        found += [_MARK] if any(gap.marked for gap in tested.values()) else []
        found += [_COLLAPSED.format(", ".join(runs))] if runs else []
        found += [_DOSE.format(LEAST_DOSE)] if self.doses else []
        if self.published.scores:
            what = self.published.metric.removesuffix(".") or "nothing"
            sets = ", ".join(map(display_name, self._sets()))
            found.append(f"Published: {what}. The scores here are over {sets}.")
            single = [label for label, score in self.published.scores.items() if score and score[1] is None]
            found += [_NO_ERROR.format(", ".join(single))] if single else []
        return found

    def print(self, console: Console) -> None:
        """The table without the single sets, which would not fit a terminal, and the paper's numbers below it."""
        table, beside = self.table(), list(_BESIDE) if self.published.scores else []
        show(table.drop(columns=beside), [] if beside else self.notes()[1:], console)
        if beside:
            show(table[["recipe", "mean", "difference", *beside]], [self.published.title, *self.notes()[1:]], console)

    def text(self, format: Format) -> str:
        """The whole table, with a column for each set, for a paper or a program."""
        return report_text(ENDINGS[format], self.table(sets=True), self.numbers, self.record())

    def write(self, folder: Path, about: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write report.md, .tex, .csv, .json, .png and .svg.

        Args:
            folder: where to.
            about: what to add to the JSON.
        """
        picture, _ = save_figure(self.figure(), folder / "report")
        table, record, notes = self.table(sets=True), {**self.record(), **about}, self.notes()
        for ending in (*ENDINGS.values(), ".json"):
            text = report_text(ending, table, self.numbers, record, notes)
            if ending == ".md":
                text = f"# {markdown_text(self.published.title)}\n\n{text}\n![]({picture.name})\n"
            write_report(folder / f"report{ending}", text)

    def figure(self) -> Figure:
        """The picture of the recipes that were run."""
        seeds = {label: scores.per_seed for label, scores in self.recipes.items()}
        return draw_comparison(self.numbers.dropna(subset="mean"), seeds)

    def record(self) -> dict[str, Any]:
        """The numbers of every recipe that was run, and the scores of its seeds, as JSON."""
        numbers = self.numbers.drop(columns="recipe").astype(object)
        rows = numbers.where(numbers.notna(), None).to_dict("index")
        for label, scores in self.recipes.items():
            rows[label]["sets"] = {name: found.tolist() for name, found in scores.by_set.items()}
        whole = {"title": self.published.title, "margin": self.margin}
        if self.published.scores:
            whole["metric"] = self.published.metric
        return {**whole, "rows": {label: rows[label] for label in self.recipes}}

    def _sets(self) -> list[str]:
        return list(next(iter(self.recipes.values())).by_set)


def _formatted(numbers: pd.Series, form: str) -> list[str]:
    return ["" if pd.isna(number) else form.format(number) for number in numbers]


def _with_deviations(numbers: pd.DataFrame, name: str, form: str = "{:.2f}") -> list[str]:
    """Means as ``74.80 ± 1.12``, or without the deviation where it is unknown."""
    deviations = _formatted(numbers[f"{name} sd"], " ± {:.2f}")
    return [mean + sd for mean, sd in zip(_formatted(numbers[name], form), deviations, strict=True)]


def _with_interval(row: Mapping[str, Any]) -> str:
    """A difference as ``+0.12 [-0.45, +0.73] *``, as far as it is known."""
    if pd.isna(row["difference"]):
        return ""
    interval = "" if pd.isna(row["low"]) else f" [{row['low']:+.2f}, {row['high']:+.2f}]"
    return f"{row['difference']:+.2f}{interval}{' *' if row['marked'] is True else ''}"


def by_name(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by name; of one name, by the folder above as well."""
    names = [folder.resolve().name for folder in folders]
    above = [f"{folder.resolve().parent.name}-{name}" for folder, name in zip(folders, names, strict=True)]
    labels = [name if names.count(name) == 1 else longer for name, longer in zip(names, above, strict=True)]
    return dict(zip(labels, folders, strict=True))
