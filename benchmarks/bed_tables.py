"""The tables of papers that were trained on the test bed, as docs/results.md shows them.

    python benchmarks/bed_tables.py            # print them
    python benchmarks/bed_tables.py --write    # write them into the page, and their pictures; a test compares

Each is computed from the scores of every seed in ``benchmarks/results/tables``, see ``reproduction.comparison_of``. Its
picture is ``docs/bed/<paper>-<table>.png``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from reproduction import RESULTS, ROOT, between, comparison_of, rank_lines, record_of, run
from tables import table

from sentrep.evaluation.comparison import Comparison
from sentrep.evaluation.plots.comparison import plot_beside_published, plot_comparison
from sentrep.evaluation.rank_agreement import ORDERS
from sentrep.evaluation.significance import RecipeScores

PAGE = ROOT / "docs" / "results.md"
PICTURES = ROOT / "docs" / "bed"
FRONT = ROOT / "docs" / "comparison.png", "denosent-ablation"
"""The picture of a comparison on the first page, and its table."""
START = "<!-- generated: python benchmarks/bed_tables.py --write -->"
WARM = ROOT / "benchmarks" / "results" / "bed" / "close-rows.json"
"""``report.json`` of rows that differ little from SimCSE, from the warm bed."""
WARM_START = "<!-- close rows: python benchmarks/bed_tables.py --write -->"
ORDER = (
    "thesis-outputs",
    "thesis-inputs",
    "thesis-stability",
    "thesis-negatives",
    "thesis-scale",
    "dclr-ablation",
    "gs_infonce-samples",
    "denosent-ablation",
)
COLUMNS = ["row", "published", "here", "difference", "p", "verdict", "the paper's order"]


def main() -> None:
    """Print the tables, or write them into the page and draw the pictures."""
    run(PAGE, with_tables)
    if sys.argv[1:]:
        for name in ORDER:
            draw(name)


def with_tables(page: str) -> str:
    """The page with the tables as the results are now."""
    names = [name for name in ORDER if (RESULTS / f"{name}.json").exists()]
    page = between(page, WARM_START, [close_rows()])
    return between(page, START, [summary(names), *map(section, names)])


def close_rows() -> str:
    """How far the differences to SimCSE scatter over the seeds, paired, of rows that differ little from it."""
    record = json.loads(WARM.read_text(encoding="utf-8"))
    recipes = {
        label: RecipeScores(tuple(record["seeds"]), scores={name: np.array(own) for name, own in row["sets"].items()})
        for label, row in record["rows"].items()
    }
    baseline, *others = recipes.values()
    scattered = ["", *(f"{(other.per_seed - baseline.per_seed).std(ddof=1):.2f}" for other in others)]
    shown = Comparison.of(recipes).table()[["recipe", "mean", "difference", "p", "verdict"]].to_numpy().tolist()
    columns = ["row", "here", "difference", "p", "verdict", "sd of the paired differences"]
    return "\n" + table(columns, [[*cells, sd] for cells, sd in zip(shown, scattered, strict=True)])


def summary(names: Sequence[str]) -> str:
    """How many published orderings of two rows hold in each table, in the paper's reading."""
    counts: dict[str, list[int]] = {}
    for name in names:
        comparison = comparison_of(*name.split("-"))
        found = list(comparison.agreements["paper"].orders.values())
        counted = Counter(order.found for order in found if order.supported is not False)
        bare, within = (sum(order.supported is kind for order in found) for kind in (None, False))
        title = comparison.record()["title"].partition(":")[0]
        counts[title] = [len(found), bare, within, *(counted[order] for order in ORDERS)]
    counts["together"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    columns = ["table", "published orderings", "printed without ±", "within the paper's own ±, not counted", *ORDERS]
    lines = [[title, *map(str, numbers)] for title, numbers in counts.items()]
    return f"\n### Orderings, counted\n\n{table(columns, lines)}"


def section(name: str) -> str:
    """One table: the command, the rows, the picture, how well the ranking agrees."""
    paper, file = name.split("-")
    comparison = comparison_of(paper, file)
    record = comparison.record()
    adapt = ", ".join(f"{key}: {value}" for key, value in record_of(paper, file)["adapt"].items())
    command = f"$ sentrep compare --table configs/{paper}/tables/{file}.yaml --adapt '{{{adapt}}}' $BED"
    rows = table(COLUMNS, cells(comparison), left=1)
    picture = f"![Scores here against the paper's scores](bed/{name}.png)" if comparison.agreements else ""
    ranks = "".join(f"- {line}\n" for line in rank_lines("Ranking", comparison))
    parts = [f"### {record['title']}", f"```console\n{command}\n```", f"Published: {record['metric']}.", rows.rstrip()]
    return "\n" + "\n\n".join(filter(None, [*parts, picture, ranks.rstrip()])) + "\n"


def cells(comparison: Comparison) -> list[list[str]]:
    """The rows as the page shows them."""
    released = comparison.published.released if comparison.published else {}
    shown = comparison.table().set_index("recipe").loc[list(comparison.recipes)]
    names = [f"{label} (as the released code does it)" if label in released else label for label in shown.index]
    found = shown[["published", "mean", "difference", "p", "verdict", "order"]].to_numpy().tolist()
    return [[name, *row] for name, row in zip(names, found, strict=True)]


def draw(name: str) -> None:
    """The picture of a table: our scores over the paper's."""
    comparison = comparison_of(*name.split("-"))
    ranks, published = comparison.agreements.get("paper"), comparison.published
    if ranks is None or published is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        stem = Path(folder) / "picture"
        plot_beside_published(comparison.recipes, published.means(), stem, ranks.correlation(), published.released)
        (PICTURES / f"{name}.png").write_bytes(stem.with_suffix(".png").read_bytes())
        if name == FRONT[1]:
            plot_comparison(comparison.recipes, comparison.differences, stem)
            FRONT[0].write_bytes(stem.with_suffix(".png").read_bytes())


if __name__ == "__main__":
    main()
