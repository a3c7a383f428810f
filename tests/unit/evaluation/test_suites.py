"""How sets are named, found and refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sentrep.data.sets import transfer
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_suite, load_suite, sts, suites
from sentrep.evaluation.suites import SuiteName
from support import tiny_encoder, toy_sentences, write_pairs

SENTENCES = toy_sentences(60)
SWAPPED = ["sentence2", "sentence1", "score"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small set for every suite that reads files."""
    monkeypatch.chdir(tmp_path)
    write_pairs("pairs.csv", 20)
    Path("senteval/TREC").mkdir(parents=True)
    for name, part in (("train_5500", SENTENCES[:40]), ("TREC_10", SENTENCES[40:])):
        lines = [f"{('NUM', 'LOC')[row % 2]}:x {text}\n" for row, text in enumerate(part)]
        Path(f"senteval/TREC/{name}.label").write_text("".join(lines))
    monkeypatch.setitem(transfer._TASKS, "trec", transfer._TASKS["trec"]._replace(sizes={"train": 40, "test": 20}))
    return tmp_path


@pytest.mark.parametrize(
    ("suite", "request_", "name", "counts", "main"),
    [
        ("sts", {"sets": ["pairs.csv"]}, "pairs", {"pairs": 20}, "spearman"),
        ("sts", {"sets": ["pairs.csv"], "columns": SWAPPED}, "pairs", {"pairs": 20}, "spearman"),
        ("transfer", {"sets": ["TREC"], "sts_folder": "senteval"}, "trec", {"train": 40, "test": 20}, "accuracy"),
    ],
)
def test_a_suite_scores_its_sets(
    suite: SuiteName, request_: dict[str, Any], name: str, counts: dict[str, int], main: str, place: Path
) -> None:
    encoder = tiny_encoder(pooling="mean")
    sets = load_suite(suite, **request_)
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
def test_the_default_sets(
    suite: SuiteName, folder: str | None, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for reader in ("load_sts", "load_transfer"):
        monkeypatch.setattr(suites, reader, lambda name, folder: SimpleNamespace(name=f"{name} of {folder}"))
    assert [part.name for part in load_suite(suite, sts_folder=folder)] == [f"{name} of {folder}" for name in names]


@pytest.mark.parametrize(
    ("suite", "request_", "says"),
    [
        ("sts", {"sets": ["pairs.csv", "./pairs.csv"]}, "pairs is listed twice"),
        ("mteb", {}, "the suite mteb needs sets"),
        ("transfer", {"columns": SWAPPED}, "columns, which belong to sts"),
        ("transfer", {"sets": ["mr"]}, "no MR in it for mr; give the folder that contains MR"),
    ],
)
def test_sets_that_cannot_be_scored_are_refused(
    suite: SuiteName, request_: dict[str, Any], says: str, place: Path
) -> None:
    with pytest.raises(InputError, match=says):
        load_suite(suite, **request_)
