"""docs/reproduction.md: every row of the papers' tables, counted against the papers, and made from the files."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sentrep.cli.tables import read_table
from support import shared_path

ROOT = Path(__file__).resolve().parents[2]

NAMES = [
    f"{path.parts[-3]}/{path.stem}"
    for path in sorted(ROOT.glob("configs/*/tables/*.yaml"))
    if path.stem != "minilm-cls" and path.parts[-3] != "claims"  # tables of our own
]
TEXTS = {
    "dclr": "papers/dclr.txt",
    "gs_infonce": "papers/gs-infonce.txt",
    "thesis": "papers/simcse-negatives-thesis.txt",
    "denosent": "papers/denosent.txt",
    "denosent/classification": "papers/denosent-appendix.txt",
    **dict.fromkeys(("denosent/ablation", "denosent/heads", "denosent/noise"), "METHODS.md"),
}
"""The text that has a table's numbers: the paper's; of DenoSent's text table 3 and the figures are missing."""


@pytest.fixture
def reproduction(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("reproduction")


def test_the_page_is_made_from_the_files(reproduction: Any) -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert page == reproduction.with_tables(page), "run: python benchmarks/reproduction.py --write"


@pytest.fixture
def claims(reproduction: Any) -> Any:
    return importlib.import_module("claims")


def test_the_claims_are_made_from_the_records(claims: Any) -> None:
    page = claims.RESULTS.read_text(encoding="utf-8")
    assert page == claims.with_tables(page), "run: python benchmarks/claims.py --write"
    assert claims.FIGURE.exists()


def test_the_records_agree_with_their_seeds(claims: Any) -> None:
    """Means, deviations and differences, from the scores of every seed."""
    for name, record in claims.records().items():
        rows = record["rows"]
        scores = {label: np.mean([*row["sets"].values()], axis=0) for label, row in rows.items()}
        (baseline,) = (label for label, row in rows.items() if row["difference"] is None)
        for label, row in rows.items():
            assert row["seeds"] == len(scores[label]), (name, label)
            assert row["mean"] == pytest.approx(scores[label].mean())
            if row["mean sd"] is not None:
                assert row["mean sd"] == pytest.approx(scores[label].std(ddof=1))
            if label != baseline and row["seeds"] in (1, rows[baseline]["seeds"]):
                assert row["difference"] == pytest.approx((scores[label] - scores[baseline]).mean())


def test_the_model_passes_its_acceptance_test_and_readme_has_its_scores(claims: Any) -> None:
    rows = claims.records()["sentences"]["rows"]
    before, pooled, after = (rows[label]["mean"] for label in ("cls", "mean", "simcse"))
    assert after - pooled >= 5
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"rises from {before:.2f} to {after:.2f}; the untrained model with mean pooling has {pooled:.2f}" in text


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ({"dose": 2e-5, "difference": 1.0, "low": 0.8, "high": 1.2, "p": 0.0}, "not treated"),
        ({"difference": 1.0, "low": 0.8, "high": 1.2, "p": 0.0, "seeds": 3}, "undecided"),
        ({"difference": 1.0, "low": None, "high": None, "p": None, "seeds": 1, "mean sd": None}, "undecided"),
        ({"difference": 0.1, "low": 0.05, "high": 0.15, "p": 0.01}, "equal"),
        ({"difference": 0.1, "low": -0.2, "high": 0.4, "p": 0.4, "p equal": 0.04, "margin": 0.3}, "equal"),
        ({"difference": 0.1, "low": -0.2, "high": 0.29, "p": 0.4, "p equal": 0.06, "margin": 0.3}, "undecided"),
        ({"difference": 0.1, "low": -0.2, "high": 0.4, "p": 0.4, "p equal": 0.04, "margin": 0.5}, "undecided"),
        ({"difference": 0.5, "low": 0.1, "high": 0.9, "p": 0.03}, "confirmed"),
        ({"difference": -0.5, "low": -0.9, "high": -0.1, "p": 0.03}, "contradicted"),
        ({"difference": -0.5, "low": -0.9, "high": -0.1, "p": 0.03, "published difference": -2.0}, "confirmed"),
        ({"difference": -0.5, "low": -0.9, "high": -0.1, "p": 0.03, "published difference": None}, "worse"),
        ({"difference": 0.5, "low": 0.1, "high": 0.9, "p": 0.03, "published difference": 0.1}, "better"),
    ],
)
def test_a_verdict_follows_the_protocol(claims: Any, numbers: dict[str, Any], verdict: str) -> None:
    row = {"seeds": 5, "mean sd": 0.5, "published difference": 1.6, **numbers}
    record = {"margin": row.pop("margin", None), "rows": {"simcse": {"difference": None, "seeds": 5}, "row": row}}
    assert claims.verdict(row, record) == verdict


@pytest.mark.parametrize("name", NAMES)
def test_every_stored_number_stands_in_the_paper(name: str) -> None:
    """In the order of the rows; with its ±, where one is stored."""
    text = shared_path(TEXTS.get(name, TEXTS[name.split("/")[0]])).read_text(encoding="utf-8")
    printed = iter(re.findall(r"\d+\.\d+|±", re.sub(r"Mean\t(.*)\nStd\.\t(.*)", each_with_deviation, text)))
    rows = read_table(str(ROOT / f"configs/{name.replace('/', '/tables/')}.yaml")).rows
    paper = None
    for label, row in rows.items():
        if row.reading == "released":
            assert row.published == paper, label
            continue
        paper = row.published
        if paper is not None:
            assert stands_in(paper, printed), f"{label}: {paper}"


def each_with_deviation(found: re.Match[str]) -> str:
    """The thesis's table 6 has the means in one line and their deviations in the next."""
    return " ".join(f"{mean}±{deviation}" for mean, deviation in zip(*map(str.split, found.groups()), strict=True))


def stands_in(published: tuple[float, float | None], printed: Iterator[str]) -> bool:
    """Whether the number comes among those that are left, and its ± next."""
    mean, deviation = published
    for number in printed:
        if number != "±" and float(number) == mean:
            if deviation is None:
                return True
            sign, next_number = next(printed, ""), next(printed, "nan")
            if sign == "±" and float(next_number) == deviation:
                return True
    return False
