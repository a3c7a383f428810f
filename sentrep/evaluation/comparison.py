"""The report of a comparison: mean ± sd of every recipe, the difference to the first, a verdict, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from sentrep.evaluation.plots.comparison import plot_comparison
from sentrep.evaluation.report import plain_table
from sentrep.evaluation.report_files import markdown_table
from sentrep.evaluation.significance import Array, Difference, RecipeScores, compare, spearman_rows
from sentrep.evaluation.sts import display_name
from sentrep.io.files import write_text
from sentrep.io.harmless import html_text, markdown_text, screen_text

_NOTE = (
    "Spearman × 100 of the cosine, mean ± standard deviation over seeds. Difference: of the mean over the sets to the "
    "first recipe, with a 95 % bootstrap interval over seeds and sentence pairs, and the p-value of a permutation of "
    "seeds. A recipe is called better or worse only where both agree."
)


@dataclass(frozen=True)
class Published:
    """What a paper printed for the recipes that are compared."""

    title: str
    """Of the paper's table."""
    metric: str
    """What the numbers are."""
    scores: Mapping[str, tuple[float, float | None] | None]
    """Mean and standard deviation by recipe; None for what is not printed."""

    def means(self) -> dict[str, float]:
        """Of the recipes that have one."""
        return {label: score[0] for label, score in self.scores.items() if score is not None}

    def cell(self, label: str) -> str:
        """As a table shows it."""
        mean, deviation = self.scores.get(label) or (None, None)
        if mean is None:
            return "not printed"
        return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


@dataclass(frozen=True)
class Comparison:
    """Recipes, in the order given; the first is what the others are compared with."""

    recipes: dict[str, RecipeScores]
    differences: dict[str, Difference]
    """By recipe, without the first."""
    published: Published | None = None

    @classmethod
    def read(
        cls, files: Mapping[str, Sequence[Path]], resamples: int = 1000, published: Published | None = None
    ) -> Comparison:
        """From the score files of every recipe's seeds: arrays ``cosine/SET`` and ``gold/SET``.

        Raises:
            InputError: for runs that were scored on different pairs.
        """
        recipes = {label: _read(paths) for label, paths in files.items()}
        (_, baseline), *others = recipes.items()
        differences = {label: compare(scores, baseline, resamples=resamples) for label, scores in others}
        return cls(recipes, differences, published)

    def print(self, console: Console) -> None:
        """The table without the single sets, which would not fit a terminal."""
        columns, rows = self._table(sets=[])
        table = plain_table(*columns)
        for number, column in enumerate(table.columns):
            # where space is short, labels and verdicts wrap, numbers do not
            text = column.header in ("recipe", "verdict")
            column.justify, column.no_wrap, column.overflow = (
                ("left", False, "fold") if text else ("right", True, "fold")
            )
            column.min_width = None if text else max(len(cells[number]) for cells in (columns, *rows))
        for row in rows:
            table.add_row(*map(screen_text, row))
        console.print(table)
        if self.published is not None:
            console.print(screen_text(f"{self._title()}. {self._notes()[-1]}"), highlight=False)

    def write(self, folder: Path) -> None:
        """Write report.md, report.html, report.png and report.svg."""
        folder.mkdir(parents=True, exist_ok=True)
        plot_comparison(
            self.recipes, self.differences, folder / "report", self.published.means() if self.published else {}
        )
        columns, rows = self._table(sets=list(next(iter(self.recipes.values())).gold))
        lines = [columns, ["---", *["---:"] * (len(columns) - 2), "---"], *rows]
        table = "".join(f"{line}\n" for line in markdown_table(lines))
        head, notes = self._title(), self._notes()
        text = "\n\n".join(map(markdown_text, notes))
        write_text(folder / "report.md", f"# {markdown_text(head)}\n\n{table}\n{text}\n\n![scores](report.png)\n")
        cells = "".join(
            f"<tr>{''.join(f'<{tag}>{html_text(cell)}</{tag}>' for cell in line)}</tr>\n"
            for tag, line in (("th", columns), *(("td", row) for row in rows))
        )
        page = f"<!doctype html><meta charset='utf-8'><title>{html_text(head)}</title><style>{_STYLE}</style>\n"
        paragraphs = "".join(f"<p>{html_text(note)}</p>\n" for note in notes)
        page += f"<h1>{html_text(head)}</h1>\n<table>\n{cells}</table>\n{paragraphs}<img src='report.svg'>\n"
        write_text(folder / "report.html", page)

    def _table(self, sets: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        """Head and rows, with a column for each of ``sets``."""
        paper = [] if self.published is None else ["published"]
        columns = ["recipe", "seeds", *map(display_name, sets), "mean", *paper, "difference", "p", "verdict"]
        rows = []
        for label, scores in self.recipes.items():
            per_seed = scores.per_seed()
            each = [_mean_and_sd(spearman_rows(scores.cosines[name], scores.gold[name])) for name in sets]
            mean = [_mean_and_sd(per_seed), *([] if self.published is None else [self.published.cell(label)])]
            rows.append([label, str(len(per_seed)), *each, *mean, *self._versus_first(label)])
        return columns, rows

    def _title(self) -> str:
        return "Comparison" if self.published is None else self.published.title

    def _notes(self) -> list[str]:
        if self.published is None:
            return [_NOTE]
        sets = ", ".join(map(display_name, next(iter(self.recipes.values())).gold))
        what = self.published.metric or "nothing"
        return [_NOTE, f"Published: {what.removesuffix('.')}. The scores here are over {sets}."]

    def _versus_first(self, label: str) -> list[str]:
        if label not in self.differences:
            return ["", "", "baseline"]
        found = self.differences[label]
        return [f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]", f"{found.p_value:.3f}", found.verdict]


_STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse}"
    "td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,td:last-child{text-align:left}img{max-width:100%}"
)


def _read(paths: Sequence[Path]) -> RecipeScores:
    runs = []
    for path in paths:
        with np.load(path) as arrays:
            runs.append({key: arrays[key] for key in arrays.files})
    names = [key.removeprefix("gold/") for key in runs[0] if key.startswith("gold/")]
    cosines: dict[str, Array] = {
        name: np.stack([run[f"cosine/{name}"] for run in runs]).astype(np.float64) for name in names
    }
    return RecipeScores(cosines, {name: runs[0][f"gold/{name}"] for name in names})


def _mean_and_sd(scores: Array) -> str:
    return f"{scores.mean():.2f} ± {scores.std(ddof=1):.2f}" if len(scores) > 1 else f"{scores.mean():.2f}"
