"""``sentrep compare``: judge finished runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse.typing import PositiveFloat

from sentrep.cli.errors import UsageError
from sentrep.errors import did_you_mean
from sentrep.io.paths import expanded
from sentrep.io.text import printable


def compare(
    runs: list[str],
    *,
    baseline: str | None = None,
    margin: PositiveFloat = 0.2,
    table: str | None = None,
    output: str = "comparisons",
) -> None:
    """Say whether recipes differ from the first one, by the scores of their finished runs.

    A run is the folder of a training (sentrep fit) whose chosen checkpoint was tested (sentrep test). Each RUN is one
    recipe: the folder of a run, or a folder of runs of this recipe under several seeds, as 'sentrep fit --seeds' makes
    them.

    For example: sentrep compare runs/simcse-minilm/minilm runs/simcse-minilm/warm

    Args:
        runs: folders, a recipe each.
        baseline: the folder of the recipe that the others are compared with; by default the table's, or the first.
        margin: the least difference that would matter, in points.
        table: the file of a paper's table, whose rows are named like the folders; the report shows its numbers, too.
        output: folder of the report.
    """
    places = [expanded(run).resolve() for run in runs]
    names = [place.name for place in places]  # of one name, with the folder above as well
    labels = [place.name if names.count(place.name) == 1 else f"{place.parent.name}-{place.name}" for place in places]
    if baseline is not None and expanded(baseline).resolve() not in places:
        raise UsageError(f"compare: --baseline {baseline} is none of the runs{did_you_mean(baseline, runs)}")
    first = None if baseline is None else labels[places.index(expanded(baseline).resolve())]
    from sentrep.evaluation.run_scores import finished_runs

    found = dict(zip(labels, map(finished_runs, map(expanded, runs)), strict=True))
    judge(found, expanded(output), first, margin, table)


def judge(
    runs: Mapping[str, Sequence[Any]], output: Path, baseline: str | None, margin: float, table: str | None
) -> None:
    """Compare the runs of each recipe, print the table, and write the report; see `compare`.

    Raises:
        InputError: the runs do not fit together.
    """
    from sentrep.cli.tables import published
    from sentrep.evaluation.comparison import Comparison
    from sentrep.evaluation.published import UNPUBLISHED

    paper = UNPUBLISHED if table is None else published(table, runs)
    comparison = Comparison.read(runs, baseline, paper, margin)
    comparison.print()
    comparison.write(output)
    print(printable(f"report: {output / 'report.md'}"), file=sys.stderr)
