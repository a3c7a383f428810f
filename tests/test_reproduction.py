"""docs/reproduction.md: every row of the papers' tables, counted against the papers, and made from the files."""

from __future__ import annotations

import importlib
import json
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


def test_the_tables_of_the_beds_are_made_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    bed_tables = importlib.import_module("bed_tables")
    page = bed_tables.PAGE.read_text(encoding="utf-8")
    assert page == bed_tables.with_tables(page), "run: python benchmarks/bed_tables.py --write"
    assert bed_tables.FIGURE.exists()


def test_records_of_the_warm_bed_agree_with_their_seeds(reproduction: Any) -> None:
    """Means, deviations and differences, from the scores of every seed."""
    for file in reproduction.WARM.glob("*.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        scores = {label: np.mean([*row["sets"].values()], axis=0) for label, row in record["rows"].items()}
        baseline = next(label for label, row in record["rows"].items() if row["verdict"] == "baseline")
        for label, row in record["rows"].items():
            assert row["mean"] == pytest.approx(scores[label].mean())
            assert row["mean sd"] == pytest.approx(scores[label].std(ddof=1))
            if label != baseline:
                assert row["difference"] == pytest.approx((scores[label] - scores[baseline]).mean())
                assert (row["verdict"] == "within noise") == (row["low"] < 0 < row["high"]), (file.name, label)


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
