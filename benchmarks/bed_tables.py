"""Tables of papers that were trained on small beds, as docs/results.md shows them.

    python benchmarks/bed_tables.py            # print them
    python benchmarks/bed_tables.py --write    # write them into the page, and the pictures; a test compares

``reproduction.py`` reads the results. ``docs/bed/published.png`` shows every table of the warm bed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from reproduction import (
    ROOT,
    WARM,
    between,
    comparison_of,
    mean_of,
    on_the_test_bed,
    on_the_warm_bed,
    run,
    table_file,
    table_of,
)
from tables import table

from sentrep.evaluation.plots.comparison import draw_comparison
from sentrep.evaluation.plots.style import BLUE, DOTS, GREY, ORANGE, new_figure, styled
from sentrep.evaluation.plots.style import PAGE as WIDTH
from sentrep.evaluation.significance import LEVEL

PAGE = ROOT / "docs" / "results.md"
FIGURE = ROOT / "docs" / "bed" / "published.png"
FRONT = ROOT / "docs" / "comparison.png", ("denosent", "ablation")
"""The picture of a comparison on the site's first page, and its table on the test bed."""
CAPTION = "difference to the baseline: ● here, with 95 % interval (grey: it contains 0);  ◇ published"
MARK = "<!-- {}: python benchmarks/bed_tables.py --write -->"
Name = tuple[str, str]
"""Paper and table."""
ORDER: tuple[Name, ...] = (
    ("thesis", "negatives"),
    ("thesis", "inputs"),
    ("thesis", "outputs"),
    ("thesis", "stability"),
    ("thesis", "scale"),
    ("dclr", "ablation"),
    ("gs_infonce", "samples"),
    ("denosent", "ablation"),
)
BEDS = "test", "warm"
COLUMNS = ["row", "published", "here", "published difference", "difference here", "verdict"]


def main() -> None:
    """Print the tables, or write them into the page and draw the pictures."""
    run(PAGE, with_tables)
    if sys.argv[1:]:
        draw_published()
        draw_front()


def with_tables(page: str) -> str:
    """The page with the tables as the results are now."""
    warm, older = beds()
    page = between(page, MARK.format("close rows"), [close_rows()])
    page = between(page, MARK.format("differences"), [summary()])
    page = between(page, MARK.format("warm bed"), map(section, warm, warm.values()))
    alone = {name: result for name, result in older.items() if name not in warm}
    return between(page, MARK.format("test bed"), map(section, alone, alone.values()))


def beds() -> list[dict[Name, dict[str, Any]]]:
    """The results of the warm bed and of the test bed, by paper and table."""
    found = ({name: bed(*name) for name in ORDER} for bed in (on_the_warm_bed, on_the_test_bed))
    return [{name: result for name, result in results.items() if result} for results in found]


def close_rows() -> str:
    """How far the differences to SimCSE scatter over the seeds, paired, of rows that differ little from it."""
    record = json.loads((WARM / "close-rows.json").read_text(encoding="utf-8"))
    scores = {label: np.mean([*row["sets"].values()], axis=0) for label, row in record["rows"].items()}
    baseline, *_ = scores.values()
    lines = [
        [label, mean_of(row["mean"], row["mean sd"]), difference(row), row["verdict"], scattered]
        for label, row in record["rows"].items()
        for scattered in ["" if row["difference"] is None else f"{(scores[label] - baseline).std(ddof=1):.2f}"]
    ]
    return "\n" + table(["row", "here", "difference", "verdict", "sd of the paired differences"], lines)


def summary() -> str:
    """How many published differences to the baseline lie in our intervals, for each table on both beds."""
    warm, older = beds()
    lines = []
    for name in ORDER:
        result = warm.get(name) or older[name]
        lines.append([short_title(result), *(inside(name, bed.get(name)) for bed in (older, warm))])
    return "\n" + table(["table", *(f"{bed} bed" for bed in BEDS)], lines)


def inside(name: Name, result: dict[str, Any] | None) -> str:
    """How many published differences to the baseline our intervals contain, in the paper's reading."""
    if result is None:
        return ""
    rows = table_of(table_file(*name)).rows
    gaps = [
        row
        for label, row in result["rows"].items()
        if rows[label].reading == "paper" and None not in (row["difference"], row["published difference"])
    ]
    return f"{sum(row['low'] < row['published difference'] < row['high'] for row in gaps)} of {len(gaps)}"


def section(name: Name, result: dict[str, Any]) -> str:
    """One table: the command and the rows."""
    adapt = ", ".join(f"{key}: {value}" for key, value in result["adapt"].items())
    command = f"$ sentrep compare --table {name[0]}/tables/{name[1]} --adapt '{{{adapt}}}' $BED"
    rows = table(COLUMNS, [line(label, row) for label, row in result["rows"].items()])
    parts = [f"### {result['title']}", f"```console\n{command}\n```", f"Published: {result['metric']}.", rows.rstrip()]
    return "\n" + "\n\n".join(parts) + "\n"


def line(label: str, row: dict[str, Any]) -> list[str]:
    """A row as the page shows it."""
    gap = row["published difference"]
    printed = "" if row["published"] is None else mean_of(row["published"], row["published sd"])
    shown = [label, printed, mean_of(row["mean"], row["mean sd"]), "" if gap is None else f"{gap:+.2f}"]
    return [*shown, difference(row), row["verdict"]]


def difference(row: dict[str, Any]) -> str:
    """The difference to the baseline with its interval; ``*`` where it holds for all rows of the table at once."""
    if row["difference"] is None:
        return ""
    return f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]{' *' if row['marked'] else ''}"


def short_title(result: dict[str, Any]) -> str:
    """Where the table stands: ``DCLR, table 2``."""
    title: str = result["title"].partition(":")[0]
    return title


def draw_published() -> None:
    """The tables of the warm bed, a panel each: differences to the baseline, published and here."""
    warm, _ = beds()
    tested = [
        {label: row for label, row in result["rows"].items() if row["difference"] is not None}
        for result in warm.values()
    ]
    with styled():
        lines = [max(map(len, tested[place : place + 2])) for place in range(0, len(tested), 2)]
        figure = new_figure(0.5 + sum(0.4 + 0.17 * count for count in lines), WIDTH)
        panels = [*figure.subplots(len(lines), 2, squeeze=False, height_ratios=lines).flat]
        for axes, result, rows in zip(panels, warm.values(), tested, strict=False):
            for height, row in enumerate(rows.values()):
                colour = BLUE if row["p"] < LEVEL else GREY
                axes.plot([row["low"], row["high"]], [height, height], color=colour, linewidth=1.4)
                axes.plot(row["difference"], height, "o", color=colour, markersize=3.5)
                if row["published difference"] is not None:
                    axes.plot(row["published difference"], height, "D", color=ORANGE, fillstyle="none", markersize=4)
            axes.axvline(0, color="black", linewidth=0.6)
            axes.set_yticks(range(len(rows)), [*rows])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(short_title(result))
        for axes in panels[len(tested) :]:
            axes.remove()
        figure.supxlabel(CAPTION, fontsize="medium")
        figure.savefig(FIGURE, dpi=DOTS)


def draw_front() -> None:
    """The picture of the site's first page, of the test bed."""
    file, name = FRONT
    comparison = comparison_of(*name)
    seeds = {label: scores.per_seed for label, scores in comparison.recipes.items()}
    draw_comparison(comparison.numbers.drop(columns="published"), seeds).savefig(file, dpi=DOTS)


if __name__ == "__main__":
    main()
