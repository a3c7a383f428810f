"""``sentrep compare``: judge finished runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from sentrep.cli.errors import UsageError
from sentrep.errors import did_you_mean
from sentrep.io.paths import check_target, expanded
from sentrep.io.text import printable


def compare(
    runs: list[str],
    *,
    baseline: str | None = None,
    margin: float = 0.2,
    table: str | None = None,
    format: Literal["latex", "csv", "markdown"] | None = None,
    output: str = "comparisons",
) -> None:
    """Say whether recipes differ from the first one, by the scores of their finished runs.

    A run is the folder of a training (sentrep fit) whose chosen checkpoint was tested (sentrep test). Each RUN is one
    recipe: the folder of a run, or a folder of runs of this recipe under several seeds, as 'sentrep fit --seeds' makes
    them.

    For example: sentrep compare runs/simcse-minilm/minilm runs/simcse-minilm/warm

    Args:
        runs: folders, a recipe each.
        baseline: the folder of the recipe that the others are compared with; by default the first.
        margin: the least difference that would matter, in points.
        table: the file of a paper's table, whose rows are named like the folders; the report shows its numbers, too.
        format: print the table as latex, csv or markdown; all three are written to files, too.
        output: folder of the report.
    """
    check_target(output, folder=True)
    if margin <= 0:
        raise UsageError(f"compare: --margin {margin}: expected points above 0")
    folders = [expanded(run) for run in runs]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("compare: a folder is given twice")
    from sentrep.evaluation.comparison import by_name

    named = by_name(folders)
    first = None
    if baseline is not None:
        same = [name for name, folder in named.items() if folder.resolve() == expanded(baseline).resolve()]
        if not same:
            raise UsageError(f"compare: --baseline {baseline} is none of the runs{did_you_mean(baseline, runs)}")
        first = same[0]
    judge(named, expanded(output), first, margin, table, format)


def judge(
    folders: dict[str, Path],
    output: Path,
    baseline: str | None = None,
    margin: float = 0.2,
    table: str | None = None,
    format: Literal["latex", "csv", "markdown"] | None = None,
) -> None:
    """Read the runs, print the table, and write the report.

    Args:
        folders: of the runs of each recipe, by its name.
        output: see `compare`, like the others.
        baseline: name of a recipe.
        margin: in points.
        table: name or file.
        format: of the printed table.

    Raises:
        InputError: the runs do not fit together.
    """
    from rich.console import Console

    from sentrep.cli.tables import published
    from sentrep.evaluation.comparison import Comparison
    from sentrep.evaluation.published import UNPUBLISHED

    paper = UNPUBLISHED if table is None else published(table, folders)
    comparison = Comparison.read(folders, baseline, paper, margin)
    if format is None:
        comparison.print(Console())
    else:
        print(comparison.text(format), end="")
    comparison.write(output)
    print(printable(f"report: {output / 'report.md'}"), file=sys.stderr)
