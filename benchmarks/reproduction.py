"""Every row of every table of the four papers: its file, what the paper printed, and what became of it here.

    python benchmarks/reproduction.py            # print docs/reproduction.md
    python benchmarks/reproduction.py --write    # write its table; a test compares

Rows come from ``configs/<paper>/tables/*.yaml``. A row that is a claim of docs/results.md has the difference that was
measured there (``benchmarks/results/claims``).
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tables import table

from sentrep.cli.tables import Row, Table, read_table
from sentrep.io.text import markdown_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
CLAIMED = ROOT / "benchmarks" / "results" / "claims"
"""Records of `sentrep compare`, a file for each table of ``configs/claims/tables``."""
START, END = "<!-- generated: python benchmarks/reproduction.py --write -->", "<!-- end -->"

PAPERS = {
    "dclr": "DCLR (Zhou et al., ACL 2022)",
    "gs_infonce": "GS-InfoNCE (Wu et al., COLING 2022)",
    "thesis": "Park 2023 (master's thesis, Seoul National University)",
    "denosent": "DenoSent (Wang et al., AAAI 2024)",
}

SUITE = "`sentrep evaluate MODEL --mteb TASK`"
COSINES = "`train/positive_cosine` and `train/negative_cosine` in `metrics.csv`"
ORDER = "`sentrep fit --table thesis/tables/order --row simcse` with other values of `data.seed` alone"
UNIFORMITY = "`val/stsb-dev/uniformity` in the `metrics.csv` of each run"
SEEDS = {
    "seed 19984": ("0.48 / -2.47 / 77.04", "0.46 / -2.35 / 77.75"),
    "seed 5838": ("0.47 / -2.42 / 76.47", "0.49 / -2.53 / 77.74"),
    "seed 16822": ("0.48 / -2.44 / 75.27", "0.45 / -2.42 / 77.88"),
    "seed 19294": ("0.45 / -2.38 / 73.85", "0.41 / -2.11 / 77.78"),
    "seed 17173": ("0.51 / -2.56 / 77.46", "0.47 / -2.40 / 78.43"),
    "mean": ("0.48 / -2.45 / 76.02", "0.46 / -2.36 / 77.92"),
    "sd": ("0.02 / 0.07 / 1.47", "0.03 / 0.16 / 0.29"),
}
"""Of the thesis's table 6: alignment / uniformity / STS-B test of SimCSE, and with Gaussian noise sampling."""
HOW = {"mean": "`alignment_all` and `uniformity_first` of `val/stsb-dev` in the rows above"}
MEASUREMENTS = {
    "dclr": [
        ("figure 1", "cosines of a sentence and its negatives", "curve", "SimCSE with `examples/figures/cosines.py`"),
        ("figure 4", "uniformity in training", "curves", UNIFORMITY),
    ],
    "gs_infonce": [
        ("table 1", "batch of SimCSE: BERT, RoBERTa", "64, 512", "`data.batch_size` in `configs/simcse`"),
        ("table 1", "batch of GS-InfoNCE: BERT, RoBERTa", "64, 64", "`data.batch_size` in `configs/gs_infonce`"),
        (
            "figure 1",
            "four largest negative cosines over the batch",
            "curves",
            "`examples/figures/negatives.py`",
        ),
        ("figure 2", "dev and test score over samples", "curves", "`val/sts` of table 3's runs, and `sentrep test`"),
    ],
    "thesis": [
        ("table 1", "seven pairs of sentences with gold scores", "examples", "nothing is measured"),
        *(
            ("table 6", f"{seed}: SimCSE; Gaussian sampling", "; ".join(printed), HOW.get(seed, "rows above"))
            for seed, printed in SEEDS.items()
        ),
        ("figure 9", "cosines of positives and negatives", "curves", COSINES),
        ("text of section 7.2", "order of the text apart from dropout", "none", ORDER),
    ],
    "denosent": [
        (
            "figure 3",
            "MAP of AskUbuntu, MindSmall, SciDocsRR, StackOverflow, Quora",
            "52.81, 29.81, 68.17, 41.75, 64.36",
            SUITE,
        ),
        ("figure 3", "MRR of these five", "65.92, 30.76, 88.27, 41.86, 74.06", SUITE),
    ],
}
"""By paper, what is no table of rows: where it stands, what it shows, what is printed, what makes it here."""
CLAIMS: dict[str, tuple[str, str | None]] = {
    "gaussian-sampling": ("Park 2023, table 5", "thesis/negatives/gaussian-sampling"),
    "memory-bank": ("Park 2023, table 5", "thesis/negatives/memory-bank"),
    "noisy-anchor": ("Park 2023, table 5", "thesis/negatives/noisy-anchor"),
    "gaussian-sampling-covariance": ("Park 2023, table 5", "thesis/negatives/gaussian-sampling-covariance"),
    "gaussian-mixture": ("Park 2023, table 5", "thesis/negatives/gaussian-mixture"),
    "label-smoothing": ("Park 2023, table 4", "thesis/stability/label-smoothing"),
    "awp": ("Park 2023, table 4", "thesis/stability/awp"),
    "sam": ("Park 2023, table 4", "thesis/stability/sam"),
    "input-gaussian-noise": ("Park 2023, table 3", "thesis/inputs/input-gaussian-noise"),
    "input-feature-dropout": ("Park 2023, table 3", "thesis/inputs/input-feature-dropout"),
    "gaussian-standard": ("Park 2023, table 7", "thesis/scale/gaussian-standard"),
    "gs-infonce": ("GS-InfoNCE, table 3", "gs_infonce/samples/samples-3x"),
    "dclr": ("DCLR, table 1", "dclr/backbones/dclr-bert-base"),
    "esimcse": ("ESimCSE, table 2", None),
    "labels": ("SimCSE, table 5", None),
    "denosent": ("DenoSent, table 3", "denosent/ablation/bert-base-paper"),
    "denoising": ("DenoSent, table 3", "denosent/ablation/denoising-only"),
    "contrastive-on-sentences": ("DenoSent, table 3", "denosent/ablation/contrastive-only-no-discrete-noise"),
    "denosent-on-sentences": ("DenoSent, table 3", "denosent/ablation/no-discrete-noise"),
    "denoising-on-sentences": ("DenoSent, table 3", "denosent/ablation/denoising-only-no-discrete-noise"),
    "cls-pooling": ("DenoSent, table 3", "denosent/ablation/cls-pooling"),
}
"""By row of ``configs/claims/tables``: where the gain is printed, and the row that trains it at the paper's size."""
COLUMNS = ["of", "table and row", "printed", "here"]


def main() -> None:
    """Print the tables, or write them into the page."""
    run(PAGE, with_tables)


def with_tables(page: str) -> str:
    """The page with the table as the files are now."""
    lines = [line for paper in PAPERS for line in lines_of(paper)]
    return between(page, START, ["\n", table(COLUMNS, lines, left=len(COLUMNS))])


def run(file: Path, made: Callable[[str], str]) -> None:
    """The command line of a page that is made in part: print it, or write it."""
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(f"usage: python {sys.argv[0]} [--write]")
    page = made(file.read_text(encoding="utf-8"))
    if sys.argv[1:]:
        file.write_text(page, encoding="utf-8")
    else:
        print(page)


def between(page: str, start: str, sections: Iterable[str]) -> str:
    """The page with these sections between a mark and the next `END`."""
    before, rest = page.split(start)
    return f"{before}{start}\n{''.join(sections)}\n{END}{rest.split(END, 1)[1]}"


def lines_of(paper: str) -> list[list[str]]:
    """A paper's rows, and its other measurements, in the order of the paper."""
    name = name_of(paper)
    lines: list[tuple[str, list[str]]] = []
    for file, item, rows in tables_of(paper):
        for label, row in rows.rows.items():
            printed = "point" if row.published is None and item.startswith("figure") else number(row)
            place = f"`{recipe_name(file)} {label}`"
            lines.append((item, [item, place, printed, status(label, row, file)]))
    lines += [(item, [f"{name}, {item}", what, printed, how]) for item, what, printed, how in MEASUREMENTS[paper]]
    return [line for _, line in sorted(lines, key=lambda entry: order_of(entry[0]))]


def name_of(paper: str) -> str:
    """A paper's name, without its authors."""
    return PAPERS[paper].split(" (")[0]


def tables_of(paper: str) -> Iterator[tuple[Path, str, Table]]:
    """A paper's files: the file, where it stands in the paper, and the rows. Tables of our own are left out."""
    for file in sorted((ROOT / "configs" / paper / "tables").glob("*.yaml")):
        rows = table_of(file)
        head, found, _ = rows.title.partition(": ")
        if found:
            yield file, head.partition(", ")[2] or "text", rows


@functools.cache
def table_of(file: Path) -> Table:
    """A table as commands read it."""
    return read_table(str(file))


def number(row: Row) -> str:
    """The stored number of a row."""
    return mean_of(*row.published) if row.published else "none"


def mean_of(mean: float, deviation: float | None) -> str:
    """A mean with its standard deviation, where that is known."""
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def recipe_name(file: Path) -> str:
    """A shipped file as commands name it."""
    return file.relative_to(ROOT / "configs").with_suffix("").as_posix()


def order_of(item: str) -> tuple[int, int, str]:
    """Tables before figures, by number."""
    number = re.search(r"\d+", item)
    return ("table", "figure", "text").index(item.split()[0]), int(number[0]) if number else 0, item


@functools.cache
def records() -> dict[str, dict[str, Any]]:
    """The records of the claims, by table."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(CLAIMED.glob("*.json"))}


@functools.cache
def measured() -> dict[str, dict[str, Any]]:
    """The rows of the records that measure a claim, by the papers' row."""
    rows = {label: row for record in records().values() for label, row in record["rows"].items()}
    return {path: rows[label] for label, (_, path) in CLAIMS.items() if path is not None and label in rows}


def interval(row: dict[str, Any]) -> str:
    """The difference to the baseline, with its interval if it has one."""
    return f"{row['difference']:+.2f}" + ("" if row["low"] is None else f" [{row['low']:+.2f}, {row['high']:+.2f}]")


def status(name: str, row: Row, file: Path) -> str:
    """What became of a row."""
    if row.absent is not None:
        return f"absent: {markdown_text(row.absent)}"
    if row.untrained:
        return "untrained"
    if (claim := measured().get(f"{file.parts[-3]}/{file.stem}/{name}")) is not None:
        return f"trained: {interval(claim)}"
    return "small" if "overrides/minilm.yaml" in file.read_text(encoding="utf-8") else "GPU"


if __name__ == "__main__":
    main()
