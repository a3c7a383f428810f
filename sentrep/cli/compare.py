"""``sentrep compare``: train several recipes under several seeds, and test their differences."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sentrep.cli.errors import UsageError
from sentrep.cli.fit import sort_words
from sentrep.cli.recipe import split
from sentrep.io.files import hold, remove_leftovers
from sentrep.io.paths import check_target, expanded
from sentrep.io.text import printable


@dataclass
class Competitors:
    """Recipes and variants to compare, read from the words that are no option of the command."""

    recipes: list[str] = field(default_factory=list)
    variants: list[tuple[str, list[str]]] = field(default_factory=list)
    """The name and the flags of each variant of the first recipe."""
    shared: list[str] = field(default_factory=list)
    """The words for every ``sentrep fit``."""

    @property
    def rows(self) -> list[tuple[str, str, list[str]]]:
        """The name, the recipe and the words of each."""
        stems = [Path(recipe).stem for recipe in self.recipes]
        names = [
            stem if stems.count(stem) == 1 else f"{Path(recipe).parent.name}-{stem}"
            for recipe, stem in zip(self.recipes, stems, strict=True)
        ]
        rows = [(name, recipe, self.shared) for name, recipe in zip(names, self.recipes, strict=True)]
        return rows + [(name, self.recipes[0], self.shared + own) for name, own in self.variants]


def compare(
    words: list[str],
    *,
    seeds: int | list[int] = 5,
    vary: Literal["both", "order", "noise"] = "both",
    suite: Literal["sts", "transfer", "mteb"] = "sts",
    sets: list[str] | None = None,
    columns: list[str] | None = None,
    format: Literal["latex", "csv", "markdown"] | None = None,
    over: list[str] | None = None,
    output: str = "comparisons",
    jobs: int = 1,
    table: str | None = None,
    rows: list[str] | None = None,
    adapt: dict[str, Any] | None = None,
) -> int:
    """Train recipes under several seeds, score them, and say whether they differ from the first one.

    Every recipe (-c FILE) and every variant of the first (--variant NAME='FLAGS') is a row; both may be repeated. In
    fit a second -c overrides the first; here it is another row, and --over FILE overrides every row.
    Every other option goes to each sentrep fit, for example --model.encoder.backbone FOLDER. Finished runs are kept:
    run the same command again after an interruption, or with more seeds or recipes.

    Args:
        words: recipes, variants, and the flags of every run.
        seeds: the number of seeds (the thesis's five come first), or a list; fewer than four give no verdict.
        vary: the effect of a seed: order (of the training text), noise (initial head, dropout, draws) or both.
        suite: the tasks: sts (similarity), transfer (logistic regression) or mteb.
        sets: of the suite; by default each recipe's own data.test, or the seven tasks of transfer.
        columns: names or positions of the columns of csv files of pairs.
        format: print the table as latex, csv or markdown; all three are written to files, too.
        over: configuration files that override every recipe.
        output: folder of all runs and of the report.
        jobs: runs at the same time, each with its share of the cores.
        table: compare the rows of a paper's table instead of recipes, and show the published numbers.
        rows: the rows of the table to train; by default all.
        adapt: other values for the rows of the table that have a key of this ending: '{lr: 1.0e-4, weighting.model:
            FOLDER}'; a flag would apply to all rows, also to rows without the plug-in.

    Returns:
        The exit status, which is 1 when some run failed.
    """
    check_target(output, folder=True)
    competitors = competitors_of(words)
    if table is None and (rows or adapt):
        raise UsageError("compare: --rows and --adapt need the file of the rows: --table FILE")
    if table is None and not competitors.recipes:
        raise UsageError("compare: name at least one recipe: -c simcse/minilm, or --table FILE")
    if table is not None and (competitors.recipes or competitors.variants):
        raise UsageError("compare: give one --table, or recipes by -c; --over '[FILE]' overrides every row")
    for recipe in competitors.recipes:
        sort_words(["-c", recipe, *competitors.shared])
    place, untrained = expanded(output), {}
    read = None
    if table is not None:
        from sentrep.cli.tables import read_table

        read = read_table(table).only(rows).adapt(adapt or {})
        competitors.recipes = [str(path) for path in read.recipes(place / "recipes")]
        untrained = {name: row.untrained for name, row in read.rows.items()}

    from sentrep.cli.compare_runs import LOCK, check, headline, plan, report
    from sentrep.cli.seeded_runs import Wanted, train_all
    from sentrep.evaluation.suites import SuiteSets

    wanted = Wanted(suite, SuiteSets(sets, None, columns))
    runs = plan(competitors.rows, place, seeds, vary, over or [], untrained)
    runs = check(runs, place, wanted, read)
    with hold(place / LOCK, f"the comparison in {output}"):
        remove_leftovers(place)
        print(printable(headline(runs, read)), file=sys.stderr)
        failures = train_all(runs, wanted, jobs)
        names = {key: Path(value).name if isinstance(value, str) else value for key, value in (adapt or {}).items()}
        about = {"over": [Path(file).stem for file in over or []], "adapt": names}
        report(runs, place, wanted, read, about, format)
    for (label, seed), reason in failures.items():
        print(printable(f"{label}, seed {seed}: {reason}"), file=sys.stderr)
    return int(bool(failures))


def competitors_of(words: list[str]) -> Competitors:
    """Recipes, variants, and the flags of every run."""
    found = Competitors()
    for key, value in split(words):
        if key == "config" and value is not None:
            found.recipes.append(value)
        elif key == "variant":
            found.variants.append(_variant(value or ""))
        else:
            found.shared += [f"--{key}"] if value is None else [f"--{key}", value]
    return found


def _variant(text: str) -> tuple[str, list[str]]:
    """Name and words of ``NAME=--model.x 1 --data.y 2``."""
    found = re.fullmatch(r"(\w[\w.+-]{0,99})=(.*)", text, re.DOTALL)  # the name is used for a folder
    if not found:
        raise UsageError(
            f"compare: --variant {text}: expected a name of letters, digits, dots, hyphens and underscores, and flags: "
            "--variant low='--model.objectives.simcse.temperature 0.03'"
        )
    return found[1], shlex.split(found[2])
