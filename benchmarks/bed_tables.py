"""The tables of papers that were trained on the test bed, as docs/results.md shows them.

    python benchmarks/bed_tables.py            # print them
    python benchmarks/bed_tables.py --write    # write them into the page; a test compares

Each is made from ``report.json`` of ``sentrep compare``, which lies in ``benchmarks/results/tables``, with the picture
``agreement.png`` as ``docs/bed/<paper>-<table>.png``.
"""

from __future__ import annotations

import json
from typing import Any

from reproduction import RESULTS, ROOT, between, rank_lines, run
from tables import table

PAGE = ROOT / "docs" / "results.md"
START = "<!-- generated: python benchmarks/bed_tables.py --write -->"
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
    """Print the tables, or write them into the page."""
    run(PAGE, with_tables)


def with_tables(page: str) -> str:
    """The page with the tables as the results are now."""
    return between(page, START, (section(name) for name in ORDER if (RESULTS / f"{name}.json").exists()))


def section(name: str) -> str:
    """One table: the command, the rows, the picture, how well the ranking agrees."""
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    paper, file = name.split("-")
    adapt = ", ".join(f"{key}: {value}" for key, value in record["adapt"].items())
    command = f"$ sentrep compare --table configs/{paper}/tables/{file}.yaml --adapt '{{{adapt}}}' $BED"
    rows = table(COLUMNS, [cells(label, row) for label, row in record["rows"].items()], left=1)
    picture = f"![Scores here over those of the paper](bed/{name}.png)" if record["rank_agreement"] else ""
    ranks = "".join(f"- {line}\n" for line in rank_lines("Ranking", record))
    parts = [f"### {record['title']}", f"```console\n{command}\n```", rows.rstrip(), picture, ranks.rstrip()]
    return "\n" + "\n\n".join(filter(None, parts)) + "\n"


def cells(label: str, row: dict[str, Any]) -> list[str]:
    """A row as the page shows it."""
    name = f"{label} (as the released code does it)" if row["reading"] == "released" else label
    found = row.get("difference")
    difference = ["", "", "not trained" if row["untrained"] else "baseline"]
    if found is not None:
        interval = f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"
        difference = [interval, f"{found['p_value']:.3f}", found["verdict"]]
    return [
        name,
        mean_and_sd(*(row["published"] or ("", None))),
        mean_and_sd(row["mean"], row["sd"]),
        *difference,
        row["order"] or "",
    ]


def mean_and_sd(mean: Any, deviation: float | None) -> str:
    """Two numbers in one cell."""
    if mean == "":
        return "not printed"
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


if __name__ == "__main__":
    main()
