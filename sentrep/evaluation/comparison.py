"""The report of a comparison: mean ± sd of every recipe, the difference to the first, a verdict, pictures."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from sentrep.errors import InputError
from sentrep.evaluation.plots.comparison import draw_comparison
from sentrep.evaluation.plots.style import save_figure
from sentrep.evaluation.published import UNPUBLISHED, Published
from sentrep.evaluation.report import metric_name
from sentrep.evaluation.significance import Array, Difference, RecipeScores, compare, holm
from sentrep.evaluation.sts import display_name
from sentrep.evaluation.table import report_text, show, write_report
from sentrep.io.text import markdown_text

Format = Literal["latex", "csv", "markdown"]
ENDINGS = {"latex": ".tex", "csv": ".csv", "markdown": ".md"}

_PAIRS = "Spearman"
_NOTE = (
    "{measure} × 100{cosine}, mean ± standard deviation over seeds. Difference: the mean over the sets minus the "
    "baseline's, with its 95 % interval and the p-value of its t-test, over {over}. A recipe is called better or worse "
    "where p < 0.05."
)
_PAIRED = (
    "Interval and test are paired by seed: every recipe ran under the same seeds, and under one seed all recipes have "
    "the same order of the text and the same noise."
)
_COLLAPSED = (
    "Collapsed runs, far below the median of their recipe's seeds: {}. Means, intervals and p-values of these recipes "
    "are unreliable: give more seeds, and say how many runs collapsed."
)
_DOSE = (
    "Dose: the mean share of the softmax, and so of the gradient, that the drawn negatives of a row had in training. "
    "A row below {} is not treated by them, whatever its difference."
)
_LEAST_DOSE = 1e-4
_UNPAIRED = "Recipes that ran under other seeds than the baseline are not paired with it by seed: {}."
_MARK = "*: p < 0.05 also after Holm's correction for all rows of the table."
_TESTED = ("difference", "low", "high", "p", "p holm")
"""Numbers of a difference, which the baseline has not."""
_BESIDE = ("published", "published difference")
"""Columns that only a comparison with a paper has."""


@dataclass(frozen=True)
class Comparison:
    """Recipes, in the order given."""

    recipes: dict[str, RecipeScores]
    differences: dict[str, Difference]
    """By recipe, to the baseline, which has none."""
    published: Published = UNPUBLISHED
    measure: str = _PAIRS
    """Name of the scores."""
    doses: Mapping[str, float] = field(default_factory=dict)
    """Of the recipes that drew negatives: `sentrep.evaluation.history.dose`, mean over the seeds."""

    @classmethod
    def read(
        cls,
        files: Mapping[str, Mapping[int, Path]],
        published: Published = UNPUBLISHED,
        doses: Mapping[str, float] = MappingProxyType({}),
    ) -> Comparison:
        """From the score files of every recipe's seeds: ``cosine/SET`` and ``gold/SET``, or ``METRIC/SET``.

        Raises:
            InputError: for runs that were scored on different pairs.
        """
        read = {label: _read(paths, label in published.untrained) for label, paths in files.items()}
        measures = dict.fromkeys(metric_name(metric) for _, metrics in read.values() for metric in metrics)
        recipes = {label: scores for label, (scores, _) in read.items()}
        return replace(cls.of(recipes, published, " and ".join(measures)), doses=doses)

    @classmethod
    def of(
        cls, recipes: dict[str, RecipeScores], published: Published = UNPUBLISHED, measure: str = _PAIRS
    ) -> Comparison:
        """Compare the recipes with the first, or with the paper's baseline.

        Raises:
            InputError: for recipes that were scored on different pairs.
        """
        first = published.baseline or next(iter(recipes))
        differences = {label: compare(scores, recipes[first]) for label, scores in recipes.items() if label != first}
        published = published.over(list(recipes[first].by_set))
        return cls(recipes, holm(differences), published, measure)

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """A row for each recipe: means over seeds and their ``sd``, of each set and of the sets' mean, and the rest.

        Unknown values are missing. A recipe of the paper's table that was not run has the paper's numbers alone.
        """
        rows: list[dict[str, Any]] = []
        for label in self.published.scores or self.recipes:
            rows.append({"recipe": label, "verdict": "absent"})
            if (scores := self.recipes.get(label)) is not None:
                rows[-1] |= {**scores.means, "verdict": "baseline"}
            if (gap := self.differences.get(label)) is not None:
                rows[-1] |= zip(_TESTED, (gap.mean, gap.low, gap.high, gap.p_value, gap.adjusted), strict=True)
                rows[-1] |= {"marked": gap.marked or None, "verdict": gap.verdict}
        measured = list(next(iter(self.recipes.values())).means)
        columns = ["recipe", *measured, *_TESTED, "marked", "verdict"]
        frame = pd.DataFrame(rows, columns=columns, dtype=object).set_index("recipe", drop=False)
        frame = frame.astype({**dict.fromkeys([*measured, *_TESTED], float), "seeds": "Int64"})
        if self.published.scores:
            printed = [score or (None, None) for score in self.published.scores.values()]
            frame[["published", "published sd"]] = np.array(printed, dtype=float)
            apart = frame["published"] - frame["published"].get(self.baseline, np.nan)
            frame["published difference"] = apart.drop(self.baseline, errors="ignore").round(6)
        if self.doses:
            frame["dose"] = pd.Series(dict(self.doses), dtype=float)
        return frame

    @property
    def baseline(self) -> str:
        """The recipe that the others are compared with."""
        return next(label for label in self.recipes if label not in self.differences)

    def print(self, console: Console) -> None:
        """The tables without the single sets, which would not fit a terminal."""
        table, notes = self.table(), self._seed_notes()
        if self.published.scores:
            show(table.drop(columns=list(_BESIDE)), console=console)
            table, notes = table[["recipe", "mean", *_BESIDE]], [f"{self.published.title}. {self._measured()}", *notes]
        show(table, notes, console)

    def text(self, format: Format) -> str:
        """The whole table, with a column for each set, for a paper or a program."""
        return report_text(ENDINGS[format], self.table(sets=True), self.numbers, self.record())

    def write(self, folder: Path, about: Mapping[str, Any] | None = None, name: str = "report") -> None:
        """Write report.md, .tex, .csv, .json, .png and .svg.

        Args:
            folder: where to.
            about: what to add to the JSON.
            name: of the files, without their endings.
        """
        picture, _ = save_figure(self.figure(), folder / name)
        record = {**self.record(), **(about or {})}
        for ending in (*ENDINGS.values(), ".json"):
            text = report_text(ending, self.table(sets=True), self.numbers, record, self._notes())
            if ending == ".md":
                text = f"# {markdown_text(self.published.title)}\n\n{text}\n![]({picture.name})\n"
            write_report(folder / f"{name}{ending}", text)

    def figure(self) -> Figure:
        """The picture of the recipes that were run."""
        seeds = {label: scores.per_seed for label, scores in self.recipes.items()}
        return draw_comparison(self.numbers.dropna(subset="mean"), seeds, self.measure)

    def record(self) -> dict[str, Any]:
        """The numbers of every recipe that was run, and the scores of its seeds, as JSON."""
        numbers = self.numbers.drop(columns="recipe").astype(object)
        rows = numbers.where(numbers.notna(), None).to_dict("index")
        for label, scores in self.recipes.items():
            rows[label]["sets"] = {name: found.tolist() for name, found in scores.by_set.items()}
        whole = {"title": self.published.title, "rows": {label: rows[label] for label in self.recipes}}
        if self.published.scores:
            whole["metric"] = self.published.metric
        return whole

    def table(self, sets: bool = False) -> pd.DataFrame:
        """A row for each recipe as people read it, with a column for each set on demand; all cells are texts."""
        numbers = self.numbers
        seeds = numbers["seeds"].astype("string").fillna("")
        columns: dict[str, Any] = {"recipe": numbers["recipe"], "seeds": seeds}
        if sets:
            columns |= {display_name(name): _with_deviations(numbers, name) for name in self._sets()}
        columns["mean"] = _with_deviations(numbers, "mean")
        if self.published.scores:
            columns["published"] = [text or "not printed" for text in _with_deviations(numbers, "published")]
        columns["difference"] = [_with_interval(row) for row in numbers.to_dict("records")]
        if self.published.scores:
            columns["published difference"] = _formatted(numbers["published difference"], "{:+.2f}")
        columns["p"] = _formatted(numbers["p"], "{:.3f}")
        if self.doses:
            texts = zip(_formatted(numbers["dose"], "{:.1e}"), numbers["dose"] < _LEAST_DOSE, strict=True)
            columns["dose"] = [f"{text} (not treated)" if low else text for text, low in texts]
        columns["verdict"] = numbers["verdict"]
        return pd.DataFrame(columns, dtype=object).reset_index(drop=True)

    def _sets(self) -> list[str]:
        return list(next(iter(self.recipes.values())).by_set)

    def _notes(self) -> list[str]:
        cosines = any(scores.cosines for scores in self.recipes.values())
        over = "seeds and sentence pairs" if cosines else "seeds"
        note = _NOTE.format(measure=self.measure, cosine=" of the cosine" if self.measure == _PAIRS else "", over=over)
        measured = [self._measured()] if self.published.scores else []
        return [" ".join([note, *self._seed_notes()]), *measured]

    def _seed_notes(self) -> list[str]:
        """Notes on the pairing with the baseline, the mark of significance, collapsed runs, and doses."""
        tested = {label: found for label, found in self.differences.items() if found.p_value is not None}
        apart = [label for label, found in tested.items() if not found.paired]
        paired = [_UNPAIRED.format(", ".join(apart)) if apart else _PAIRED] if tested else []
        runs = [
            f"{label} (" + ", ".join(f"seed {seed}: {score:.2f}" for seed, score in scores.collapsed.items()) + ")"
            for label, scores in self.recipes.items()
            if scores.collapsed
        ]
        collapsed = [_COLLAPSED.format(", ".join(runs))] if runs else []
        marked = [_MARK] if any(found.marked for found in tested.values()) else []
        return [*paired, *marked, *collapsed, *([_DOSE.format(_LEAST_DOSE)] if self.doses else [])]

    def _measured(self) -> str:
        sets = ", ".join(map(display_name, self._sets()))
        what = self.published.metric.removesuffix(".") or "nothing"
        return f"Published: {what}. The scores here are over {sets}."


def _formatted(numbers: pd.Series, form: str) -> list[str]:
    return ["" if pd.isna(number) else form.format(number) for number in numbers]


def _with_deviations(numbers: pd.DataFrame, name: str) -> list[str]:
    """Means as ``74.80 ± 1.12``, or without the deviation where it is unknown."""
    deviations = _formatted(numbers[f"{name} sd"], " ± {:.2f}")
    return [mean + sd for mean, sd in zip(_formatted(numbers[name], "{:.2f}"), deviations, strict=True)]


def _with_interval(row: Mapping[str, Any]) -> str:
    """A difference as ``+0.12 [-0.45, +0.73] *``, as far as it is known."""
    if pd.isna(row["difference"]):
        return ""
    interval = "" if pd.isna(row["low"]) else f" [{row['low']:+.2f}, {row['high']:+.2f}]"
    return f"{row['difference']:+.2f}{interval}{' *' if row['marked'] is True else ''}"


def read_scores(path: Path) -> dict[str, Array]:
    """The arrays of a run's score file, see `Comparison.read`.

    Raises:
        InputError: the file is damaged or cut off.
    """
    try:
        with np.load(path) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        what = f"no readable scores ({error}); delete the file, and sentrep compare makes them again"
        raise InputError(f"{path}: {what}") from error


def _read(paths: Mapping[int, Path], fixed: bool) -> tuple[RecipeScores, list[str]]:
    """The runs' scores by seed, and the metrics that they are."""
    runs = [read_scores(path) for path in paths.values()]
    kinds: dict[str, dict[str, Array]] = {"gold": {}, "cosine": {}}
    for key in runs[0]:
        metric, _, name = key.partition("/")
        for path, run in zip(paths.values(), runs, strict=True):
            same = key in run and run[key].shape == runs[0][key].shape
            if not same or (metric == "gold" and not np.array_equal(run[key], runs[0][key])):
                first = next(iter(paths.values()))
                raise InputError(f"{path} and {first} were scored on other pairs, or in another order ({name})")
        kinds.setdefault(metric, {})[name] = np.stack([run[key] for run in runs]).astype(np.float64)
    gold = {name: rows[0] for name, rows in kinds.pop("gold").items()}
    cosines = kinds.pop("cosine")
    scores = {name: found for sets in kinds.values() for name, found in sets.items()}
    return RecipeScores(tuple(paths), cosines, gold, scores, fixed), list(kinds) or [_PAIRS]
