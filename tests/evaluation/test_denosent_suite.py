"""The suite denosent on small local sets: mteb's tasks against our own suites on the same data, and what is missing."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.sets import write_beir
from sentrep import SentenceEncoder
from sentrep.cli import main
from sentrep.data import load_labelled_folder, load_reranking, load_retrieval
from sentrep.errors import InputError
from sentrep.evaluation import (
    Request,
    SuiteEvaluation,
    TaskResult,
    evaluate_reranking,
    evaluate_retrieval,
    evaluate_suite,
    evaluate_transfer,
    load_suite,
    print_results,
)
from sentrep.evaluation.denosent_suite import CLASSIFICATIONS, PAPER_SETS, load_paper_set, published_notes
from sentrep.functional.ranking import average_precision, reciprocal_rank
from support import tiny_encoder, toy_sentences

mteb = pytest.importorskip("mteb", reason="needs mteb, the extra `mteb`")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SENTENCES = toy_sentences(120)
DOCUMENTS = {f"d{row}": text for row, text in enumerate(SENTENCES[:90])}
QUERIES = {f"q{row // 3}_{row % 3}": text for row, text in enumerate(SENTENCES[90:])}
"""Three queries of each reader, in MIND's words; readers share what is relevant and what is ranked."""
JUDGED = {query: {f"d{(7 * int(query[1:-2]) + k) % 90}": 1 for k in (1, 5)} for query in QUERIES}
CANDIDATES = {
    query: list(dict.fromkeys([*JUDGED[query], *(f"d{(11 * int(query[1:-2]) + k) % 90}" for k in range(20))]))
    for query in QUERIES
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classification of one language, one of several and one that mteb samples; rerankings and a retrieval."""
    place = tmp_path_factory.mktemp("sets")
    for name, often in (("banking77", 1), ("MTOPDomainClassification", 1), ("toxic_conversations", 55)):
        (place / name).mkdir()
        for split, texts in (("train", SENTENCES[:80]), ("test", SENTENCES[80:] * often)):
            with (place / name / f"{split}.csv").open("w", newline="") as file:
                rows = [[text, "abc"[number % 3]] for number, text in enumerate(texts)]
                csv.writer(file).writerows([["text", "category"], *rows])
    for name in ("AskUbuntuDupQuestions", "mind_small", "quora"):
        write_beir(place / name, DOCUMENTS, QUERIES, JUDGED, CANDIDATES)
    return place


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return tiny_encoder(pooling="mean")


def scored(encoder: SentenceEncoder, folder: Path, *names: str) -> list[TaskResult]:
    sets = load_suite("denosent", Request(list(names), str(folder)))
    return evaluate_suite("denosent", encoder, sets, show_progress_bar=False)


def test_classifications(encoder: SentenceEncoder, folder: Path) -> None:
    several, one = scored(encoder, folder, "MTOPDomain", "banking77")
    (expected,) = evaluate_transfer(encoder, [load_labelled_folder(folder / "banking77")])
    assert one.main_score == pytest.approx(expected.main_score, abs=0.3)  # one text of 40, once in ten
    assert several.scores == one.scores
    assert (several.name, several.counts, one.dataset) == ("MTOPDomain", {"train": 80, "test": 40}, expected.dataset)


def test_every_task_has_mtebs_own_texts_per_label_and_english_test_texts() -> None:
    tasks: list[Any] = []
    for name in CLASSIFICATIONS:
        subset = "en" if mteb.get_task(f"{name}Classification").metadata.is_multilingual else None
        tasks.append(mteb.get_task(f"{name}Classification", hf_subsets=subset and [subset]))
    assert [task.samples_per_label for task in tasks] == [32, 8, 8, 16, 8, 8, 8, 8, 16, 32]


def test_toxic_conversations_are_sampled_as_mteb_does(folder: Path) -> None:
    part = load_paper_set("ToxicConversations", str(folder), optional=False)
    assert part is not None
    assert len(part.task.dataset["test"]) == 2048
    assert (part.task.samples_per_label, part.task.eval_splits, part.task.hf_subsets) == (16, ["test"], ["default"])


def test_rerankings_and_quora(encoder: SentenceEncoder, folder: Path) -> None:
    asked, mind, quora = scored(encoder, folder, "AskUbuntuDupQuestions", "mind_small", "QuoraRetrieval")
    (rerank,) = evaluate_reranking(encoder, [load_reranking(folder / "AskUbuntuDupQuestions")])
    (retrieval,) = evaluate_retrieval(encoder, [load_retrieval(folder / "quora")])
    assert asked.scores["map"] == pytest.approx(rerank.scores["map"], abs=2e-3)  # mteb rounds to 5 digits
    assert asked.scores["mrr@10"] == pytest.approx(rerank.scores["mrr@10"], abs=2e-3)
    assert quora.scores["map"] == pytest.approx(retrieval.scores["map@1000"], abs=2e-3)
    assert list(quora.scores) == ["map@1", "mrr@1", "map", "mrr@10"]
    assert (asked.counts, asked.published) == ({"documents": 90, "queries": 30}, {"map": 52.81, "mrr@10": 65.92})
    vectors = {text: encoder.encode(text) for text in SENTENCES}
    ranked = {}
    for reader in range(10):
        best = {}
        for document in CANDIDATES[f"q{reader}_0"]:
            pairs = [(vectors[QUERIES[f"q{reader}_{k}"]], vectors[DOCUMENTS[document]]) for k in range(3)]
            best[document] = max(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs)
        ranked[reader] = [
            JUDGED[f"q{reader}_0"].get(document, 0) for document in sorted(best, key=lambda d: best[d], reverse=True)
        ]
    precision = [average_precision(grades, 2, len(grades)) for grades in ranked.values()]
    assert mind.scores["map"] == pytest.approx(100 * np.mean(precision), abs=2e-3)
    ranks = [reciprocal_rank(grades, 10) for grades in ranked.values()]
    assert mind.scores["mrr@10"] == pytest.approx(100 * np.mean(ranks), abs=2e-3)


def test_what_is_there_is_scored_and_what_is_missing_is_named(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_encoder(pooling="mean").save_pretrained("model")
    for name in ("banking77", "AskUbuntuDupQuestions"):
        shutil.copytree(folder / name, tmp_path / "sets" / name)
    words = ["--suite", "denosent", "--sts_folder", "sets", "--output", "scores.json", "--compute.device", "cpu"]
    assert main(["evaluate", "model", *words]) == 0
    out = capsys.readouterr().out
    missing = [name for name in PAPER_SETS if name not in ("Banking77", "AskUbuntuDupQuestions")]
    for name in missing:
        assert sum(line.startswith(f"sets: no folder called {name} or ") for line in caplog.messages) == 1
    assert f"Not scored, of fifteen: {', '.join(missing)}." in out
    assert "52.81" in out
    assert "mean" not in [line.split()[0] for line in out.splitlines() if line.split()], "of accuracy and MAP"
    report = json.loads(Path("scores.json").read_text())
    assert [result["name"] for result in report["results"]] == ["Banking77", "AskUbuntuDupQuestions"]
    assert report["results"][1]["published"] == {"map": 52.81, "mrr@10": 65.92}
    assert report["average"] is None


def test_the_published_numbers_and_the_mean_of_the_ten(capsys: pytest.CaptureFixture[str]) -> None:
    ten = [
        TaskResult(name, "MTEB", "test", {"test": 9}, {"accuracy": 60.0 + n}, "x")
        for n, name in enumerate(PAPER_SETS[:10])
    ]
    quora = TaskResult(
        "QuoraRetrieval", "MTEB", "test", {"queries": 9}, {"map@1": 1.0}, "x", published={"map@1": 64.36}
    )
    print_results([*ten, quora], notes=published_notes([*ten, quora]))
    out = capsys.readouterr().out
    assert "64.50" in out
    assert "64.36" in out
    assert "64.46 (SimCSE: 62.73)" in out
    assert "Not scored, of fifteen: AskUbuntuDupQuestions, MindSmallReranking, SciDocsRR" in out


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(["bankin77"], "."), "unknown set 'bankin77' of the suite denosent; did you mean 'Banking77'"),
        (Request(["Emotion"], "sets"), "sets: no folder called Emotion or emotion in it; add it, or leave the set out"),
        (Request(None, "empty"), "empty: no set of the suite denosent in it; add folders such as banking77"),
        (Request(None, "nowhere"), "nowhere: no such folder"),
        (Request(["quora"], "twice"), "both Quora and quora-retrieval are QuoraRetrieval; keep one of the two"),
        (Request(["mindsmall"], "sets"), "mind_small: the query 'q0' has no number after an underline"),
        (Request(["quora"], split="dev"), "denosent has no use for split"),
    ],
)
def test_refusals(request_: Request, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sets", "empty", "twice/Quora", "twice/quora-retrieval"):
        Path(name).mkdir(parents=True)
    write_beir(Path("sets/mind_small"), DOCUMENTS, {"q0": "a b"}, {"q0": {"d1": 1}}, {"q0": ["d1", "d2"]})
    with pytest.raises(InputError, match=message):
        load_suite("denosent", request_)


def test_without_network_and_folder_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("mteb.abstasks.abstask.load_dataset", unreachable)
    with pytest.raises(InputError, match=r"Banking77: the data set mteb/banking77@\w+ cannot be had from the hub"):
        load_suite("denosent", Request(["banking77"]))


def test_a_collapsed_encoder_is_refused(
    folder: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = load_suite("denosent", Request(["banking77"], str(folder)))
    monkeypatch.setattr(SentenceEncoder, "encode", lambda self, texts, **_: np.ones((len(texts), 4), np.float32))
    with pytest.raises(
        InputError, match=r"Banking77Classification: all .* vectors are equal; the encoder has collapsed"
    ):
        evaluate_suite("denosent", encoder, sets)


def test_a_run_does_not_take_it() -> None:
    with pytest.raises(InputError, match="suite denosent has hours of text; use sentrep evaluate after the run"):
        SuiteEvaluation("denosent")


def test_mtebs_log_and_the_progress_bars_come_back(folder: Path, encoder: SentenceEncoder) -> None:
    import datasets

    before = logging.getLogger("mteb").level, datasets.are_progress_bars_disabled()
    scored(encoder, folder, "AskUbuntuDupQuestions")
    assert (logging.getLogger("mteb").level, datasets.are_progress_bars_disabled()) == before
