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

ROOT = Path(__file__).resolve().parents[1]

NAMES = [
    f"{path.parts[-3]}/{path.stem}"
    for path in sorted(ROOT.glob("configs/*/tables/*.yaml"))
    if path.stem != "minilm-cls" and path.parts[-3] != "claims"  # tables of our own
]
WITH_SETS = {
    **{
        f"thesis/{name}": "simcse-negatives-thesis" for name in ("outputs", "inputs", "stability", "negatives", "scale")
    },
    "dclr/backbones": "dclr",
    "gs_infonce/backbones": "gs-infonce",
    "denosent/methods": "denosent",
}
"""Tables whose rows have numbers of single sets, and the paper's text."""

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
        ({"difference": 1.0, "low": 0.8, "high": 1.2, "p": 0.0, "seeds": 3}, "cannot be told"),
        ({"difference": 1.0, "low": None, "high": None, "p": None, "seeds": 1, "mean sd": None}, "cannot be told"),
        ({"difference": 0.1, "low": 0.05, "high": 0.15, "p": 0.01}, "equal"),
        ({"difference": 0.1, "low": -0.2, "high": 0.4, "p": 0.4, "p equal": 0.04, "margin": 0.3}, "equal"),
        ({"difference": 0.1, "low": -0.2, "high": 0.29, "p": 0.4, "p equal": 0.06, "margin": 0.3}, "cannot be told"),
        ({"difference": 0.1, "low": -0.2, "high": 0.4, "p": 0.4, "p equal": 0.04, "margin": 0.5}, "cannot be told"),
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


RERUN = 0.84
"""Standard deviation of SimCSE over 50 seeds, an independent rerun of BERT-base."""
GAINS = {
    "sentences": {
        **dict.fromkeys(
            ("gaussian-sampling", "memory-bank", "noisy-anchor", "gaussian-sampling-covariance", "gaussian-mixture"),
            "thesis/tables/negatives",
        ),
        **dict.fromkeys(("label-smoothing", "awp", "sam"), "thesis/tables/stability"),
        **dict.fromkeys(("input-gaussian-noise", "input-feature-dropout"), "thesis/tables/inputs"),
        "gaussian-standard": "thesis/tables/scale",
        "gs-infonce": (77.63, 76.25),
        "dclr": (77.22, 76.25),
        "esimcse": (78.27, 76.25),
    },
    "pairs": {
        "denosent": (79.33, 77.96),
        "denoising": (76.19, 77.96),
        "contrastive-on-sentences": (76.17, 77.96),
        "denosent-on-sentences": (77.99, 77.96),
        "denoising-on-sentences": (74.54, 77.96),
        "cls-pooling": (78.66, 77.96),
    },
    "labels": {"labels": (81.57, 76.25)},
}
"""By table of claims and row: the table of the thesis with the row and its SimCSE, or the paper's two numbers."""


@pytest.mark.parametrize("name", GAINS)
def test_claims_are_differences_of_published_numbers(name: str) -> None:
    """With their standard errors: over five seeds with population deviations, or of two single seeds."""
    found = read_table(str(ROOT / f"configs/claims/tables/{name}.yaml"))
    claimed = {label: row.published for label, row in found.rows.items() if row.published is not None}
    assert claimed.pop(found.first) == (0.0, None)
    assert claimed.keys() == GAINS[name].keys()
    for label, source in GAINS[name].items():
        if isinstance(source, str):
            rows = read_table(str(ROOT / f"configs/{source}.yaml")).rows
            (after, spread), (before, other) = rows[label].published, rows["simcse"].published
            error = ((spread**2 + other**2) / 4) ** 0.5
        else:
            (after, before), error = source, 2**0.5 * RERUN
        assert claimed[label] == (round(after - before, 2), round(error, 2)), label


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


@pytest.mark.parametrize("name", WITH_SETS)
def test_published_numbers_of_single_sets_stand_in_the_paper(name: str) -> None:
    """STS16, STS-B, SICK-R and the mean of the seven sets are neighbours in a line."""
    paper, file = name.split("/")
    text = shared_path(f"papers/{WITH_SETS[name]}.txt").read_text(encoding="utf-8")
    printed = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", re.sub(r"<[^<>]*>", " ", text))]
    rows = read_table(str(ROOT / f"configs/{paper}/tables/{file}.yaml")).rows
    checked = [row for row in rows.values() if row.sets]
    assert len(checked) > 4
    for row in checked:
        assert row.published is not None
        first, second, mean = (
            [number for number in pair if number is not None]
            for pair in (row.sets["sts16"], row.sets["stsb"], row.published)
        )
        sick = [None] * len(mean)
        wanted = [*first, *second, *sick, *mean]
        starts = [place for place, number in enumerate(printed) if number == wanted[0]]
        found = [[*zip(wanted, printed[place : place + len(wanted)], strict=False)] for place in starts]
        assert any(all(one in (None, other) for one, other in pairs) for pairs in found)
