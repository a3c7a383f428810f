"""docs/reproduction.md: every row of the papers' tables, counted against the papers, and made from the files."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from sentrep.cli.paper_tables import read_table

ROOT = Path(__file__).resolve().parents[1]

# Rows with a number in the paper, and the sum of these numbers as the paper prints them, which no slip in one survives.
PAPERS = {
    # table 1: two models without BERT, ten rows of either BERT, eight of either RoBERTa
    "dclr/backbones": (38, 2452.10),
    "dclr/ablation": (6, 453.90),
    "gs_infonce/backbones": (8, 623.81),  # table 2
    "gs_infonce/samples": (8, 614.17),  # table 3
    "thesis/outputs": (7, 331.87),  # table 2
    "thesis/inputs": (6, 448.90),
    "thesis/stability": (6, 441.72),
    "thesis/negatives": (8, 597.19),
    "thesis/alignment": (2, 153.94),
    "thesis/scale": (5, 376.98),
    "thesis/backbones": (8, 594.28),  # table 8
    "denosent/methods": (19, 1310.12),  # table 1
    "denosent/ablation": (8, 619.82),  # table 3
}
WITHOUT_NUMBERS = {
    "dclr/positives": 10,  # figure 3: five strategies with and without debiasing
    "dclr/few-shot": 5,  # figure 5
    "dclr/thresholds": 5,  # figure 6
    "dclr/ratios": 5,
    "thesis/samples": 5,  # figure 10
    "denosent/heads": 5,  # figure 4
    "denosent/noise": 5,
    "denosent/layers": 3,
}


@pytest.fixture
def reproduction(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("reproduction")


@pytest.mark.parametrize("name", PAPERS)
def test_no_row_of_a_table_is_missing(name: str) -> None:
    paper, file = name.split("/")
    rows = read_table(str(ROOT / f"configs/{paper}/tables/{file}.yaml")).rows.values()
    printed = [row.published[0] for row in rows if row.published is not None and row.reading == "paper"]
    assert len(printed) == PAPERS[name][0]
    assert sum(printed) == pytest.approx(PAPERS[name][1], abs=0.001)


@pytest.mark.parametrize("name", WITHOUT_NUMBERS)
def test_no_point_of_a_figure_is_missing(name: str) -> None:
    paper, file = name.split("/")
    rows = read_table(str(ROOT / f"configs/{paper}/tables/{file}.yaml")).rows.values()
    assert sum(row.reading == "paper" for row in rows) == WITHOUT_NUMBERS[name]


def test_every_table_is_counted(reproduction: Any) -> None:
    found = {f"{paper}/{file.stem}" for paper in reproduction.PAPERS for file, _, _ in reproduction.tables_of(paper)}
    assert found == {*PAPERS, *WITHOUT_NUMBERS}
    left_out = {path.stem for path in ROOT.glob("configs/*/tables/*.yaml")} - {name.split("/")[1] for name in found}
    assert left_out == {"minilm-cls"}  # our own


def test_the_page_is_made_from_the_files(reproduction: Any) -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert page == reproduction.with_tables(page), "run: python benchmarks/reproduction.py --write"


def test_the_tables_of_the_test_bed_are_made_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    bed_tables = importlib.import_module("bed_tables")
    page = bed_tables.PAGE.read_text(encoding="utf-8")
    assert page == bed_tables.with_tables(page), "run: python benchmarks/bed_tables.py --write"
    for name in bed_tables.ORDER:
        assert f"bed/{name}.png" not in page or (ROOT / "docs/bed" / f"{name}.png").exists()


def test_the_page_tells_what_was_trained(reproduction: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path)
    row = {"mean": 50.0, "sd": 1.25, "difference": {"verdict": "better"}, "order": "holds"}
    ranks = {"labels": ["a", "b"], "spearman": 0.5, "low": -0.1, "high": 0.9, "p_value": 0.04}
    record = {
        "rows": {"memory-bank": row, "simcse": {"mean": 49.0, "sd": None}},
        "rank_agreement": {"paper": {**ranks, "orders": {"a > b": "holds"}}},
        **{"backbone": "bed", "max_steps": 300, "batch_size": 64, "seeds": [1, 2, 3]},
    }
    (tmp_path / "thesis-negatives.json").write_text(json.dumps(record), encoding="utf-8")
    lines = reproduction.section("thesis").splitlines()
    file = "`configs/thesis/tables/negatives.yaml`"
    scale = "bed, 300 steps, batch 64, 3 seeds"
    cells = f"| table 5 | memory-bank | {file} | 76.52 ± 0.87 | trained here ({scale}): 50.00 ± 1.25, better, holds |"
    assert cells in lines
    assert f"| table 5 | simcse | {file} | 74.80 ± 1.12 | trained here ({scale}): 49.00 |" in lines
    assert f"| table 5 | vae | {file} | 74.79 ± 0.69 | builds, runs small |" in lines
    assert lines[-1].startswith("- table 5, the paper's readings: Spearman 0.50")
    assert lines[-1].endswith("Of 1 published orderings of two rows 1 hold, 0 turn around, 0 cannot be told.")
