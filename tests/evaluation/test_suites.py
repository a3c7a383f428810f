"""How sets are named, found and refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from sentrep.data.sets import transfer
from sentrep.evaluation import SUITES, SuiteSets, evaluate_suite, load_suite, sts, suites
from sentrep.evaluation.suites import SuiteName
from support import tiny_encoder, toy_sentences

SENTENCES = toy_sentences(60)
SWAPPED = ["sentence2", "sentence1", "score"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small set for every suite that reads files."""
    monkeypatch.chdir(tmp_path)
    pairs = [
        f'"{a}","{b}",{row % 4}\n' for row, (a, b) in enumerate(zip(SENTENCES[:20], SENTENCES[20:40], strict=True))
    ]
    Path("pairs.csv").write_text("sentence1,sentence2,score\n" + "".join(pairs))
    Path("senteval/TREC").mkdir(parents=True)
    for name, part in (("train_5500", SENTENCES[:40]), ("TREC_10", SENTENCES[40:])):
        lines = [f"{('NUM', 'LOC')[row % 2]}:x {text}\n" for row, text in enumerate(part)]
        Path(f"senteval/TREC/{name}.label").write_text("".join(lines))
    monkeypatch.setitem(transfer._TASKS, "trec", transfer._TASKS["trec"]._replace(sizes={"train": 40, "test": 20}))
    return tmp_path


@pytest.mark.parametrize(
    ("suite", "request_", "name", "counts", "main"),
    [
        ("sts", SuiteSets(["pairs.csv"]), "pairs", {"pairs": 20}, "spearman"),
        ("sts", SuiteSets(["pairs.csv"], columns=SWAPPED), "pairs", {"pairs": 20}, "spearman"),
        ("transfer", SuiteSets(["TREC"], "senteval"), "trec", {"train": 40, "test": 20}, "accuracy"),
    ],
)
def test_a_suite_scores_its_sets(
    suite: str, request_: SuiteSets, name: str, counts: dict[str, int], main: str, place: Path
) -> None:
    encoder = tiny_encoder(pooling="mean")
    sets = load_suite(suite, request_)
    (result,) = evaluate_suite(suite, encoder, sets, show_progress_bar=False)
    assert (result.name, result.counts, next(iter(result.scores))) == (name, counts, main)
    assert all(-100 <= score <= 100 for score in result.scores.values())
    assert len(result.dataset) == 32
    (again,) = evaluate_suite(suite, encoder, sets, show_progress_bar=False)
    assert again == result


@pytest.mark.parametrize(
    ("suite", "folder", "names"),
    [
        ("sts", "x", sts.DEFAULT_SUITE),
        ("sts", None, [name for name in sts.DEFAULT_SUITE if name != "sickr"]),  # the hub has SICK-R as one set only
        ("transfer", "x", ["mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc"]),
    ],
)
def test_the_default_sets(suite: str, folder: str | None, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in ("load_sts", "load_transfer"):
        monkeypatch.setattr(suites, reader, lambda name, folder: SimpleNamespace(name=f"{name} of {folder}"))
    assert [part.name for part in load_suite(suite, SuiteSets(sts_folder=folder))] == [
        f"{name} of {folder}" for name in names
    ]


def test_the_command_line_offers_every_suite() -> None:
    assert get_args(SuiteName) == tuple(SUITES)
