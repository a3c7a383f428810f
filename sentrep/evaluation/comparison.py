"""The report of a comparison: mean ± sd of every recipe, the difference to the first, a verdict, pictures."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from rich.console import Console

from sentrep.errors import InputError
from sentrep.evaluation.plots.comparison import plot_beside_published, plot_comparison
from sentrep.evaluation.published import Published
from sentrep.evaluation.rank_agreement import Order, RankAgreement, agreement
from sentrep.evaluation.report import metric_name
from sentrep.evaluation.significance import Array, Difference, RecipeScores, compare, holm
from sentrep.evaluation.sts import display_name
from sentrep.reports.document import Picture
from sentrep.reports.frames import Forms, as_text, markdown_table, mean_and_sd, screen_table
from sentrep.reports.report import Report
from sentrep.reports.text import screen_text

Format = Literal["latex", "csv", "markdown"]

_PAIRS = "Spearman"
_NOTE = (
    "{measure} × 100{cosine}, mean ± standard deviation over seeds. Difference: of the mean over the sets to the "
    "baseline, with a 95 % interval, and the p-value of the t-test that belongs to it, over {over}. A recipe is called "
    "better or worse where p < 0.05."
)
_PAIRED = (
    "Interval and test are paired by seed: every recipe ran under the same seeds, and a seed has the same order of the "
    "text and the same noise in each."
)
_UNPAIRED = "Recipes that ran under other seeds than the baseline are not paired with it by seed: {}."
_MARK = "*: p < 0.05 after Holm's correction for all rows of the table as well."
_RANKS = (
    "Spearman's correlation is of our order of the rows, by mean, and the published one; p by permutation of the rows. "
    "A published ordering of two rows holds or turns around where p < 0.05 after Holm's correction for all pairs of "
    "rows, and cannot be told otherwise. It is beyond the paper's own ± where Welch's test of the printed numbers has "
    "p < 0.05, and not supported where p is higher. Order: of the row and the baseline."
)
_TESTED = ("difference", "low", "high", "p", "p holm", "marked")
_COLUMNS: Mapping[str, Forms] = {
    "mean": mean_and_sd("mean"),
    "published": (*mean_and_sd("published"), ("not printed",)),
    "difference": (
        ("{:+.2f} [{:+.2f}, {:+.2f}] *", "difference", "low", "high", "marked"),
        ("{:+.2f} [{:+.2f}, {:+.2f}]", "difference", "low", "high"),
        ("{:+.2f}", "difference"),
    ),
    "published difference": (("{:+.2f}", "published difference"),),
    "p": (("{:.3f}", "p"),),
    "verdict": (("{}", "verdict"),),
    "order": (("{}", "order"),),
}
_BESIDE = ("published", "published difference", "order")
"""Columns that only a comparison with a paper has."""
_ALTS = ("Seeds and means of every recipe, and differences to the first", "Means here over published ones")
"""Alternative texts of the pictures ``report`` and ``agreement``."""
_READINGS = {"paper": "Rank agreement", "released": "The same with the readings of the released code in their places"}


@dataclass(frozen=True)
class Comparison:
    """Recipes, in the order given."""

    recipes: dict[str, RecipeScores]
    differences: dict[str, Difference]
    """By recipe, to the baseline, which has none."""
    published: Published | None = None
    agreements: dict[str, RankAgreement] = field(default_factory=dict)
    """With the paper, by reading: ``paper`` and ``released``."""

    measure: str = _PAIRS
    """Name of the scores."""

    @classmethod
    def read(cls, files: Mapping[str, Mapping[int, Path]], published: Published | None = None) -> Comparison:
        """From the score files of every recipe's seeds: ``cosine/SET`` and ``gold/SET``, or ``METRIC/SET``.

        Raises:
            InputError: for runs that were scored on different pairs.
        """
        same = () if published is None else published.untrained
        read = {label: _read(paths, label in same) for label, paths in files.items()}
        measures = dict.fromkeys(metric_name(metric) for _, metrics in read.values() for metric in metrics)
        recipes = {label: scores for label, (scores, _) in read.items()}
        return cls.of(recipes, published, " and ".join(measures))

    @classmethod
    def of(
        cls, recipes: dict[str, RecipeScores], published: Published | None = None, measure: str = _PAIRS
    ) -> Comparison:
        """Compare the recipes with the first or with the paper's baseline, and their ranking with the paper's.

        Raises:
            InputError: for recipes that were scored on different pairs.
        """
        first = next(iter(recipes)) if published is None else published.baseline or next(iter(recipes))
        differences = {label: compare(scores, recipes[first]) for label, scores in recipes.items() if label != first}
        agreements = {}
        if published is not None:
            published = published.over(list(recipes[first].by_set))
            for reading, labels in published.ranked().items():
                if (found := agreement(recipes, published, labels)) is not None:
                    agreements[reading] = found
        return cls(recipes, holm(differences), published, agreements, measure)

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """A row for each recipe: means over seeds and their ``sd``, of each set and of the sets' mean, and the rest.

        Unknown values are missing. A recipe of the paper's table that was not run has the paper's numbers alone.
        """
        labels = list(self.recipes if self.published is None else self.published.scores)
        names = [*self._sets(), "mean"]
        columns = ["seeds", *(f"{name}{end}" for name in names for end in ("", " sd")), *_TESTED, "verdict"]
        index = pd.Index(labels, dtype=object)  # an Arrow string refuses a name with a lone surrogate
        frame = pd.DataFrame(map(self._row, labels), index=index, columns=columns)
        frame["seeds"] = frame["seeds"].astype("Int64")
        if self.published is not None:
            printed = [self.published.scores[label] or (None, None) for label in labels]
            frame[["published", "published sd"]] = np.array(printed, dtype=float)
            gap = frame["published"] - frame["published"].get(self._baseline(), np.nan)
            frame["published difference"] = gap.drop(self._baseline(), errors="ignore").round(6)
            frame["order"] = [None if (order := self._order(label)) is None else str(order) for label in labels]
        return frame

    def print(self, console: Console) -> None:
        """The tables without the single sets, which would not fit a terminal."""
        table = self.table()
        console.print(screen_table(table.drop(columns=list(_BESIDE), errors="ignore")))
        if self.published is not None:
            console.print(screen_table(table[["recipe", "mean", *_BESIDE]]))
            sentences = [f"{self._title()}. {self._measured()}", *self._agreement_lines()]
            console.print(screen_text(" ".join(sentences)), highlight=False)
        console.print(screen_text(" ".join(self._seed_notes())), highlight=False)

    def text(self, format: Format) -> str:
        """The whole table, with a column for each set, for a paper or a program."""
        if format == "markdown":
            return markdown_table(self.table(sets=True)) + "\n"
        return self.report().text(".tex" if format == "latex" else ".csv")

    def write(self, folder: Path, about: Mapping[str, Any] | None = None, name: str = "report") -> None:
        """Write report.md, .tex, .csv, .html, .json, .png and .svg, and with ranks agreement.png and .svg.

        Args:
            folder: where to.
            about: what to add to the JSON.
            name: of the files, without their endings.
        """
        folder.mkdir(parents=True, exist_ok=True)
        published = {} if self.published is None else self.published.means()
        plot_comparison(self.recipes, self.differences, folder / name, published, self.measure)
        pictures = [name]
        if (ranks := self.agreements.get("paper")) is not None:
            released = () if self.published is None else self.published.released
            pictures.append(name.replace("report", "agreement"))
            plot_beside_published(self.recipes, published, folder / pictures[1], ranks.correlation(), released)
        drawn = [
            Picture((folder / f"{one}.svg").read_text(encoding="utf-8"), f"{alt} of {self._title()}", file=f"{one}.png")
            for one, alt in zip(pictures, _ALTS, strict=False)
        ]
        report = replace(self.report(), pictures=drawn, record={**self.record(), **(about or {})})
        for ending in ("md", "html", "tex", "csv", "json"):
            report.write(folder / f"{name}.{ending}")

    def report(self) -> Report:
        """The whole table, with a column for each set."""
        return Report(self.table(sets=True), notes=self._notes(), rows=self._named(), title=self._title())

    def record(self) -> dict[str, Any]:
        """The numbers of every recipe that was run, the scores of its seeds, and the rank agreement, as JSON."""
        rows = self.numbers.astype(object).where(self.numbers.notna(), None).to_dict("index")
        whole: dict[str, Any] = {"title": self._title(), "rows": {label: rows[label] for label in self.recipes}}
        for label, scores in self.recipes.items():
            whole["rows"][label]["sets"] = {name: found.tolist() for name, found in scores.by_set.items()}
        if self.published is not None:
            whole["metric"] = self.published.metric
            whole["rank_agreement"] = {
                reading: {
                    **asdict(found),
                    "orders": {" > ".join(pair): asdict(held) for pair, held in found.orders.items()},
                }
                for reading, found in self.agreements.items()
            }
        return whole

    def table(self, sets: bool = False) -> pd.DataFrame:
        """A row for each recipe as people read it, with a column for each set on demand."""
        own = {display_name(name): mean_and_sd(name) for name in self._sets()} if sets else {}
        left_out = _BESIDE if self.published is None else ()
        columns = {name: forms for name, forms in _COLUMNS.items() if name not in left_out}
        first = {name: (("{}", name),) for name in ("recipe", "seeds")}
        return as_text(self._named(), {**first, **own, **columns})

    def _named(self) -> pd.DataFrame:
        """`numbers` with the recipes' names as the first column."""
        names = pd.Series(list(self.numbers.index), self.numbers.index, object)
        return self.numbers.assign(recipe=names)[["recipe", *self.numbers.columns]]

    def _row(self, label: str) -> dict[str, Any]:
        """The numbers of a recipe's own runs."""
        if (scores := self.recipes.get(label)) is None:
            return {"verdict": "absent"}
        row: dict[str, Any] = {"seeds": len(scores.per_seed), "verdict": "baseline"}
        for name, found in {**scores.by_set, "mean": scores.per_seed}.items():
            row |= {name: found.mean(), f"{name} sd": found.std(ddof=1) if len(found) > 1 else np.nan}
        if (gap := self.differences.get(label)) is not None:
            tested = (gap.mean, gap.low, gap.high, gap.p_value, gap.adjusted, True if gap.marked else None)
            row |= {**dict(zip(_TESTED, tested, strict=True)), "verdict": gap.verdict}
        return row

    def _order(self, label: str) -> Order | None:
        """The published order of the row and the baseline; None if the paper ranks them equal, or does not rank one."""
        released = self.published is not None and label in self.published.released
        found = self.agreements.get("released" if released else "paper")
        pair = (label, self._baseline())
        return None if found is None else found.orders.get(pair) or found.orders.get(pair[::-1])

    def _baseline(self) -> str:
        return next(label for label in self.recipes if label not in self.differences)

    def _sets(self) -> list[str]:
        return list(next(iter(self.recipes.values())).by_set)

    def _title(self) -> str:
        return "Comparison" if self.published is None else self.published.title

    def _notes(self) -> list[str]:
        cosines = any(scores.cosines for scores in self.recipes.values())
        over = "seeds and sentence pairs" if cosines else "seeds"
        note = _NOTE.format(measure=self.measure, cosine=" of the cosine" if self.measure == _PAIRS else "", over=over)
        own = [" ".join([note, *self._seed_notes()])]
        if self.published is None:
            return own
        ranks = [" ".join([*self._agreement_lines(), _RANKS])] if self.agreements else []
        return [*own, self._measured(), *ranks]

    def _seed_notes(self) -> list[str]:
        """Notes on the pairing with the baseline, and on the mark of significance."""
        tested = {label: found for label, found in self.differences.items() if found.p_value is not None}
        apart = [label for label, found in tested.items() if not found.paired]
        paired = [_UNPAIRED.format(", ".join(apart)) if apart else _PAIRED] if tested else []
        return [*paired, *([_MARK] if any(found.marked for found in tested.values()) else [])]

    def _measured(self) -> str:
        sets = ", ".join(map(display_name, self._sets()))
        what = (self.published.metric if self.published else "") or "nothing"
        return f"Published: {what.removesuffix('.')}. The scores here are over {sets}."

    def _agreement_lines(self) -> list[str]:
        return [f"{_READINGS[reading]}: {found.sentences()}" for reading, found in self.agreements.items()]


def read_scores(path: Path) -> dict[str, Array]:
    """The arrays of a run's score file, see `Comparison.read`.

    Raises:
        InputError: it is damaged or cut off.
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
    keys = [key.partition("/")[::2] for key in runs[0]]
    names = [name for kind, name in keys if kind == "gold"]
    cosines: dict[str, Array] = {
        name: np.stack([run[f"cosine/{name}"] for run in runs]).astype(np.float64) for name in names
    }
    scored = {name: metric for metric, name in keys if metric not in ("gold", "cosine")}
    scores: dict[str, Array] = {
        name: np.array([float(run[f"{metric}/{name}"]) for run in runs]) for name, metric in scored.items()
    }
    gold = {name: runs[0][f"gold/{name}"] for name in names}
    metrics = list(scored.values()) if scored else [_PAIRS]
    return RecipeScores(tuple(paths), cosines, gold, scores, fixed), metrics
