"""The report of a comparison: mean ± sd of every recipe, the difference to the first, a verdict, pictures."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sentrep.evaluation.page import html_page, html_table, inline_svg
from sentrep.evaluation.plots.comparison import plot_beside_published, plot_comparison
from sentrep.evaluation.rank_agreement import RankAgreement, agreement, order, with_released
from sentrep.evaluation.report import markdown_table, plain_table
from sentrep.evaluation.significance import (
    FEWEST_SEEDS,
    Array,
    Difference,
    RecipeScores,
    bootstrap,
    difference,
    spearman_rows,
)
from sentrep.evaluation.sts import display_name
from sentrep.io.files import write_text
from sentrep.io.harmless import html_text, markdown_text, screen_text

_NOTE = (
    "Spearman × 100 of the cosine, mean ± standard deviation over seeds. Difference: of the mean over the sets to the "
    "baseline, with a 95 % bootstrap interval over seeds and sentence pairs, and the p-value of a t-test over "
    "seeds, both paired by seed. A recipe is called better or worse only where both agree."
)
_RANKS = (
    "Spearman's correlation is of our order of the rows, by mean, and the published one; p by permutation of the rows, "
    "the interval by the same bootstrap. A published ordering of two rows holds or turns around where one is better "
    "than the other by the rule above, and cannot be told otherwise. Order: of the row and the baseline."
)
_ALTS = {
    "report": "Seeds and means of every recipe, and differences to the first",
    "agreement": "Means here over published ones",
}
_READINGS = {"paper": "Rank agreement", "released": "The same with the readings of the released code in their places"}


@dataclass(frozen=True)
class Published:
    """What a paper printed for the recipes that are compared."""

    title: str
    """Of the paper's table."""
    metric: str
    """What the numbers are."""
    scores: Mapping[str, tuple[float, float | None] | None]
    """Mean and standard deviation by recipe; None for what is not printed."""
    released: Mapping[str, str] = field(default_factory=dict)
    """Recipes that are readings of released code, and which recipe each is another reading of."""
    untrained: Collection[str] = ()
    """Recipes that train nothing: one run stands for every seed."""
    baseline: str | None = None
    """What the others are compared with; by default the first recipe."""

    def means(self) -> dict[str, float]:
        """Of the recipes that have one."""
        return {label: score[0] for label, score in self.scores.items() if score is not None}

    def cell(self, label: str) -> str:
        """As a table shows it."""
        mean, deviation = self.scores.get(label) or (None, None)
        if mean is None:
            return "not printed"
        return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"

    def ranked(self) -> dict[str, list[str]]:
        """By reading, the recipes whose published numbers make its ranking: each number once."""
        labels = list(self.means())
        paper = {"paper": [label for label in labels if label not in self.released]}
        readings = self.released.keys() & labels
        return {**paper, "released": with_released(labels, self.released)} if readings else paper


@dataclass(frozen=True)
class Comparison:
    """Recipes, in the order given."""

    recipes: dict[str, RecipeScores]
    differences: dict[str, Difference]
    """By recipe, to the baseline, which has none."""
    published: Published | None = None
    agreements: dict[str, RankAgreement] = field(default_factory=dict)
    """With the paper, by reading: ``paper`` and ``released``."""

    @classmethod
    def read(
        cls, files: Mapping[str, Sequence[Path]], resamples: int = 1000, published: Published | None = None
    ) -> Comparison:
        """From the score files of every recipe's seeds: arrays ``cosine/SET`` and ``gold/SET``.

        Raises:
            InputError: for runs that were scored on different pairs.
        """
        most = max(FEWEST_SEEDS, *map(len, files.values()))
        same = () if published is None else published.untrained
        recipes = {label: _read(paths, most if label in same else 1) for label, paths in files.items()}
        draws = dict(zip(recipes, bootstrap(list(recipes.values()), resamples=resamples).T, strict=True))
        first = next(iter(recipes)) if published is None else published.baseline or next(iter(recipes))
        differences = {
            label: difference(scores, recipes[first], draws[label] - draws[first])
            for label, scores in recipes.items()
            if label != first
        }
        agreements = {}
        if published is not None:
            means = published.means()
            for reading, labels in published.ranked().items():
                if (found := agreement(recipes, {label: means[label] for label in labels}, draws)) is not None:
                    agreements[reading] = found
        return cls(recipes, differences, published, agreements)

    def print(self, console: Console) -> None:
        """The tables without the single sets, which would not fit a terminal."""
        columns = self._columns()
        beside = ("published", "published difference", "order")
        console.print(_plain({name: cells for name, cells in columns.items() if name not in beside}))
        if self.published is not None:
            console.print(_plain({name: columns[name] for name in ("recipe", "mean", *beside)}))
            sentences = [f"{self._title()}. {self._measured()}", *self._agreement_lines()]
            console.print(screen_text(" ".join(sentences)), highlight=False)

    def write(self, folder: Path, about: Mapping[str, Any] | None = None) -> None:
        """Write report.md, report.html, report.json, report.png and report.svg, and with ranks agreement.png and .svg.

        Args:
            folder: where to.
            about: what to add to the JSON.
        """
        folder.mkdir(parents=True, exist_ok=True)
        published = {} if self.published is None else self.published.means()
        plot_comparison(self.recipes, self.differences, folder / "report", published)
        pictures = ["report"]
        if (ranks := self.agreements.get("paper")) is not None:
            released = () if self.published is None else self.published.released
            plot_beside_published(self.recipes, published, folder / "agreement", ranks.correlation(), released)
            pictures.append("agreement")
        columns = self._columns(sets=True)
        table = "\n".join(markdown_table(list(columns), _rows(columns)))
        head, notes = self._title(), self._notes()
        text = "\n\n".join(map(markdown_text, notes)) + "\n\n" + "\n\n".join(f"![]({name}.png)" for name in pictures)
        write_text(folder / "report.md", f"# {markdown_text(head)}\n\n{table}\n\n{text}\n")
        below = [f"<p>{html_text(note)}</p>" for note in notes]
        drawn = [(folder / f"{name}.svg").read_text(encoding="utf-8") for name in pictures]
        page = [f"<h1>{html_text(head)}</h1>", html_table(list(columns), _rows(columns), head), *below]
        page += [inline_svg(svg, f"{_ALTS[name]} of {head}") for name, svg in zip(pictures, drawn, strict=True)]
        write_text(folder / "report.html", html_page(head, page))
        record = json.dumps({**self.record(), **(about or {})}, indent=1, allow_nan=False)
        write_text(folder / "report.json", record + "\n")

    def record(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        rows = {}
        for label, scores in self.recipes.items():
            per_seed = self._per_seed(label)
            sets = {name: spearman_rows(scores.cosines[name], gold) for name, gold in scores.gold.items()}
            row: dict[str, Any] = {
                "mean": per_seed.mean(),
                "sd": per_seed.std(ddof=1) if len(per_seed) > 1 else None,
                "per_seed": per_seed.tolist(),
                "sets": {name: found[: len(per_seed)].tolist() for name, found in sets.items()},
            }
            if (found := self.differences.get(label)) is not None:
                row["difference"] = {**asdict(found), "verdict": found.verdict}
            if self.published is not None:
                row["published"] = self.published.scores.get(label)
                row["published_difference"] = self._published_difference(label)
                row["reading"] = "released" if label in self.published.released else "paper"
                row["untrained"] = label in self.published.untrained
                row["order"] = self._order(label) or None
            rows[label] = row
        whole: dict[str, Any] = {"title": self._title(), "rows": rows}
        if self.published is not None:
            whole["metric"] = self.published.metric
            whole["rank_agreement"] = {
                reading: {**asdict(found), "orders": {" > ".join(pair): held for pair, held in found.orders.items()}}
                for reading, found in self.agreements.items()
            }
        return whole

    def _columns(self, sets: bool = False) -> dict[str, list[str]]:
        """Cells by column, with a column for each set on demand."""
        columns: dict[str, list[str]] = {}

        def add(column: str, cell: str) -> None:
            columns.setdefault(column, []).append(cell)

        for label in self.published.scores if self.published is not None else self.recipes:
            scores, found, seeds = self.recipes.get(label), self.differences.get(label), self._per_seed(label)
            add("recipe", label)
            add("seeds", str(len(seeds)) if len(seeds) else "")
            for name, gold in self._gold().items() if sets else ():
                cell = "" if scores is None else _mean_and_sd(spearman_rows(scores.cosines[name], gold)[: len(seeds)])
                add(display_name(name), cell)
            add("mean", _mean_and_sd(seeds))
            if self.published is not None:
                add("published", self.published.cell(label))
            add("difference", "" if found is None else f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]")
            if self.published is not None:
                gap = self._published_difference(label)
                add("published difference", "" if gap is None or label == self._baseline() else f"{gap:+.2f}")
            add("p", "" if found is None else f"{found.p_value:.3f}")
            add("verdict", "absent" if scores is None else "baseline" if found is None else found.verdict)
            if self.published is not None:
                add("order", self._order(label))
        return columns

    def _published_difference(self, label: str) -> float | None:
        """To the baseline, in the paper; None where it does not print both."""
        means = {} if self.published is None else self.published.means()
        first = self._baseline()
        return round(means[label] - means[first], 6) if {label, first} <= means.keys() else None

    def _order(self, label: str) -> str:
        """Whether the paper's order of the row and the baseline is ours; empty where it has none."""
        gap, found = self._published_difference(label), self.differences.get(label)
        return order(found, gap) if gap and found else ""

    def _baseline(self) -> str:
        return next(label for label in self.recipes if label not in self.differences)

    def _gold(self) -> dict[str, Array]:
        return next(iter(self.recipes.values())).gold

    def _per_seed(self, label: str) -> Array:
        """(S,) scores; one where nothing is trained, none where nothing is run."""
        if label not in self.recipes:
            return np.zeros(0)
        scores = self.recipes[label].per_seed()
        return scores[:1] if self.published is not None and label in self.published.untrained else scores

    def _title(self) -> str:
        return "Comparison" if self.published is None else self.published.title

    def _notes(self) -> list[str]:
        if self.published is None:
            return [_NOTE]
        ranks = [" ".join([*self._agreement_lines(), _RANKS])] if self.agreements else []
        return [_NOTE, self._measured(), *ranks]

    def _measured(self) -> str:
        sets = ", ".join(map(display_name, self._gold()))
        what = (self.published.metric if self.published else "") or "nothing"
        return f"Published: {what.removesuffix('.')}. The scores here are over {sets}."

    def _agreement_lines(self) -> list[str]:
        return [f"{_READINGS[reading]}: {found.sentences()}" for reading, found in self.agreements.items()]


def _rows(columns: Mapping[str, Sequence[str]]) -> list[list[str]]:
    return [list(row) for row in zip(*columns.values(), strict=True)]


def _plain(columns: Mapping[str, Sequence[str]]) -> Any:
    return plain_table(*columns, rows=_rows(columns))


def _read(paths: Sequence[Path], times: int) -> RecipeScores:
    """The runs' scores, each of them so many times."""
    runs = []
    for path in paths:
        with np.load(path) as arrays:
            runs.append({key: arrays[key] for key in arrays.files})
    names = [key.removeprefix("gold/") for key in runs[0] if key.startswith("gold/")]
    cosines: dict[str, Array] = {
        name: np.stack([run[f"cosine/{name}"] for run in runs] * times).astype(np.float64) for name in names
    }
    return RecipeScores(cosines, {name: runs[0][f"gold/{name}"] for name in names})


def _mean_and_sd(scores: Array) -> str:
    if len(scores) < 2:
        return "".join(f"{score:.2f}" for score in scores)
    return f"{scores.mean():.2f} ± {scores.std(ddof=1):.2f}"
