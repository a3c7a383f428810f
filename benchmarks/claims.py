"""The claims of docs/results.md: tables and the figure, made from the records of ``sentrep compare``.

    python benchmarks/claims.py            # print the page
    python benchmarks/claims.py --write    # write the page, and draw docs/claims.png; a test compares the page

A record is the ``report.json`` of ``sentrep fit --table claims/tables/NAME --seeds 5``, with the device of its runs.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from reproduction import CLAIMS, ROOT, between, interval, mean_of, records, run
from tables import table

from sentrep.evaluation.comparison import LEAST_DOSE
from sentrep.evaluation.plots.style import BLUE, DOTS, GREY, ORANGE, new_figure, styled
from sentrep.evaluation.significance import FEWEST_SEEDS, LEVEL

RESULTS = ROOT / "docs" / "results.md"
FIGURE = ROOT / "docs" / "claims.png"
MARK = "<!-- {}: python benchmarks/claims.py --write -->"
MARGIN = 0.3
"""Points: a smaller difference counts as none."""
Row = dict[str, Any]


def main() -> None:
    """Print the page, or write it and draw the figure."""
    run(RESULTS, with_tables)
    if sys.argv[1:]:
        draw()


def with_tables(page: str) -> str:
    """The page with the tables as the records are now."""
    page = between(page, MARK.format("scores"), [scores()])
    return between(page, MARK.format("claims"), [claims()])


def compared() -> list[tuple[str, Row, Row]]:
    """Label and row of every difference, and its record."""
    rows = [(label, row, record) for record in records().values() for label, row in record["rows"].items()]
    return [found for found in rows if found[1]["difference"] is not None]


def scores() -> str:
    """Every row's scores, of the seven sets together."""
    lines = [
        [name, label, str(row["seeds"]), mean_of(row["mean"], row["mean sd"])]
        for name, record in records().items()
        for label, row in record["rows"].items()
    ]
    return "\n" + table(["record", "row", "seeds", "mean of seven sets"], lines, left=2)


def claims() -> str:
    """Every difference beside the published one, with its verdict."""
    columns = ["row", "published in", "published", "here, with 95 % interval", "seeds", "dose", "verdict"]
    lines = []
    for label, row, record in compared():
        gap, dose = row["published difference"], row.get("dose")
        printed = "" if gap is None else f"{gap:+.2f} ± {row['published sd']:.2f}"
        drawn = "" if dose is None else f"{dose:.1e}"
        source, _ = CLAIMS.get(label, ("", None))
        lines.append([label, source, printed, interval(row), str(row["seeds"]), drawn, verdict(row, record)])
    return "\n" + table(columns, lines, left=2)


def verdict(row: Row, record: dict[str, Any]) -> str:
    """The verdict of the protocol, from the numbers of a record."""
    if row.get("dose") is not None and row["dose"] < LEAST_DOSE:
        return "not treated"
    (baseline,) = (other for other in record["rows"].values() if other["difference"] is None)
    trained = [baseline["seeds"], *([] if row["mean sd"] is None else [row["seeds"]])]
    if row["low"] is None or min(trained) < FEWEST_SEEDS:
        return "undecided"
    tested = record.get("margin") == MARGIN  # else the interval tells
    if row["p equal"] < LEVEL if tested else row["low"] > -MARGIN and row["high"] < MARGIN:
        return "equal"
    if row["p"] >= LEVEL:
        return "undecided"
    if abs(row["published difference"] or 0) < MARGIN:
        return "better" if row["difference"] > 0 else "worse"
    same = math.copysign(1, row["difference"]) == math.copysign(1, row["published difference"])
    return "confirmed" if same else "contradicted"


def draw() -> None:
    """The published differences and ours, with 95 % intervals."""
    rows = {label: row for label, row, _ in compared() if None not in (row["published difference"], row["low"])}
    with styled():
        figure = new_figure(1.0 + 0.3 * len(rows))  # as narrow as a phone shows it
        axes = figure.subplots()
        for height, row in enumerate(rows.values()):
            colour, half = BLUE if row["p"] < LEVEL else GREY, row["high"] - row["difference"]
            axes.errorbar(row["difference"], height - 0.12, xerr=half, fmt="o", color=colour, markersize=3.5)
            half = 1.96 * row["published sd"]
            axes.errorbar(row["published difference"], height + 0.12, xerr=half, fmt="D", color=ORANGE, markersize=3.5)
        axes.axvline(0, color="black", linewidth=0.6)
        axes.set_yticks(range(len(rows)), [*rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("difference to the baseline, 95 % interval:\n● here (grey: it contains 0), ◆ published")
        figure.savefig(FIGURE, dpi=DOTS)


if __name__ == "__main__":
    main()
