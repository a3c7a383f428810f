"""BEIR's layout, and what can be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sentrep.data import load_reranking, load_retrieval
from sentrep.errors import InputError
from support import shared_path

HEADER = "query-id\tcorpus-id\tscore\n"


def jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents, three queries, of which one has no relevant document."""
    folder = tmp_path / "tiny"
    jsonl(
        folder / "corpus.jsonl",
        [{"_id": f"d{i}", "title": t, "text": f"text {i}"} for i, t in enumerate(["A", "", "C"])],
    )
    jsonl(folder / "queries.jsonl", [{"_id": f"q{i}", "text": f"query {i}"} for i in range(4)])
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(HEADER + "q1\td0\t2\nq1\td2\t0\nq2\td9\t1\nq3\td1\t0\n")
    return folder


def test_what_is_read(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    ranking = load_retrieval(folder)
    assert (ranking.name, ranking.queries) == ("tiny", {"q1": "query 1", "q2": "query 2"})
    assert ranking.judgements == {"q1": {"d0": 2, "d2": 0}, "q2": {"d9": 1}}
    assert list(ranking.documents()) == [("d0", "A text 0"), ("d1", "text 1"), ("d2", "C text 2")]
    assert "1 judged documents are not in the corpus" in caplog.text
    assert "1 queries without a relevant document are left out" in caplog.text
    before = ranking.fingerprint
    jsonl(folder / "corpus.jsonl", [{"_id": "d0", "text": "text 0"}, {"_id": "d1", "text": "text 1"}])
    ranking = load_retrieval(folder)
    assert list(ranking.documents()) == [("d0", "text 0"), ("d1", "text 1")]
    assert ranking.fingerprint != before


def test_real_folder() -> None:
    ranking = load_retrieval(shared_path("data/transfer/scifact"))
    assert (len(ranking.document_ids), len(ranking.queries)) == (5183, 300)
    assert sum(map(len, ranking.judgements.values())) == 339
    with pytest.raises(InputError, match="every candidate is relevant, so there is nothing to rerank"):
        load_reranking(shared_path("data/transfer/scifact"))


def test_candidates(folder: Path) -> None:
    assert load_reranking(folder).candidates == {"q1": ["d0", "d2"], "q2": []}
    before = load_reranking(folder).fingerprint
    rows = [{"query-id": q, "corpus-ids": ["d2", "d0", "d2"]} for q in ("q0", "q1", "q2")]
    jsonl(folder / "top_ranked" / "test.jsonl", rows)
    ranking = load_reranking(folder)
    assert ranking.candidates == {"q1": ["d2", "d0"], "q2": ["d2", "d0"]}
    assert ranking.fingerprint != before
