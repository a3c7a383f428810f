"""Retrieval and reranking against loops over every query and document."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from evaluation.sets import TableEncoder, write_beir
from references import ranking as reference
from sentrep.data import load_reranking, load_retrieval
from sentrep.encoder.search import TopK
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_reranking, evaluate_retrieval, retrieval
from sentrep.evaluation.retrieval import ranking_score


def cosines(encoder: TableEncoder, query: str, documents: dict[str, str]) -> dict[str, float]:
    """In a loop, in float32 as the library has it, so that ties are ties."""

    def unit(text: str) -> np.ndarray:
        vector = encoder.vectors[text].astype(np.float32)
        return vector / np.float32(np.sqrt((vector * vector).sum()))

    return {d: float(sum(a * b for a, b in zip(unit(query), unit(text), strict=True))) for d, text in documents.items()}


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, TableEncoder, dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    """30 documents of which some have equal vectors, 6 queries with graded judgements.

    The vectors are axis-parallel or of four equal numbers: their cosines are exact in float32, in any order of adding.
    """
    rng = np.random.default_rng(3)
    documents = {f"d{number}": f"document {number}" for number in range(30)}
    queries = {f"q{number}": f"query {number}" for number in range(6)}
    texts = [*documents.values(), *queries.values()]
    vectors = {text: rng.choice([-1.0, 1.0], 4) * rng.choice([0.5, 2.0]) for text in texts}
    judgements = {
        query: {str(d): int(rng.integers(0, 3)) for d in rng.choice(list(documents), 5, replace=False)} | {"d0": 1}
        for query in queries
    }
    return (
        write_beir(tmp_path / "tiny", documents, queries, judgements),
        TableEncoder(vectors),
        documents,
        queries,
        judgements,
    )


@pytest.mark.parametrize("block_size", [1, 7, 30, 1000])
@pytest.mark.parametrize("depth", [4, 1000])
def test_retrieval_equals_the_loops(corpus, block_size: int, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    folder, encoder, documents, queries, judgements = corpus
    monkeypatch.setattr(retrieval, "DEPTH", depth)
    (result,) = evaluate_retrieval(encoder, [load_retrieval(folder)], block_size=block_size)
    assert max(map(len, encoder.calls[1:])) == min(block_size, 30)  # no more documents in memory at a time

    rankings = {q: reference.rank(cosines(encoder, text, documents))[:depth] for q, text in queries.items()}
    metrics = {
        "ndcg@10": (reference.ndcg, 10),
        f"map@{depth}": (reference.average_precision, depth),
        "mrr@10": (reference.reciprocal_rank, 10),
        "recall@1": (reference.recall, 1),
        "recall@10": (reference.recall, 10),
        "recall@100": (reference.recall, 100),
    }
    expected = {
        name: 100 * np.mean([metric(rankings[q], judgements[q], k) for q in queries])
        for name, (metric, k) in metrics.items()
    }
    assert result.scores == pytest.approx(expected, abs=1e-4)
    assert (result.name, result.split, result.counts) == ("tiny", "test", {"documents": 30, "queries": 6})


def test_reranking_equals_the_loops(corpus, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    _, encoder, documents, queries, judgements = corpus
    rng = np.random.default_rng(0)
    candidates = {query: rng.choice(list(documents), 12, replace=False).tolist() for query in queries}
    folder = write_beir(tmp_path / "again", documents, queries, judgements, candidates)
    (result,) = evaluate_reranking(encoder, [load_reranking(folder)], block_size=5)
    among = {query: {d: documents[d] for d in listed} for query, listed in candidates.items()}
    rankings = {q: reference.rank(cosines(encoder, text, among[q])) for q, text in queries.items()}
    expected = {
        "map": 100 * np.mean([reference.average_precision(rankings[q], judgements[q], 12) for q in queries]),
        "mrr@10": 100 * np.mean([reference.reciprocal_rank(rankings[q], judgements[q], 10) for q in queries]),
        "ndcg@10": 100 * np.mean([reference.ndcg(rankings[q], judgements[q], 10) for q in queries]),
    }
    assert result.scores == pytest.approx(expected, abs=1e-4)
    assert result.counts == {"candidates": 72, "queries": 6}
    encoded = [text for call in encoder.calls[1:] for text in call]
    assert len(encoded) == len(set(encoded))


def test_judged_documents_are_the_candidates_where_none_are_listed(corpus) -> None:  # type: ignore[no-untyped-def]
    folder, encoder, documents, queries, judgements = corpus
    (result,) = evaluate_reranking(encoder, [load_reranking(folder)])
    among = {query: {d: documents[d] for d in grades} for query, grades in judgements.items()}
    rankings = {q: reference.rank(cosines(encoder, text, among[q])) for q, text in queries.items()}
    expected = 100 * np.mean([reference.average_precision(rankings[q], judgements[q], 12) for q in queries])
    assert result.main_score == pytest.approx(expected, abs=1e-4)


def test_a_query_whose_documents_are_missing_scores_0(tmp_path: Path) -> None:
    documents, queries = {"d0": "a", "d1": "b"}, {"q0": "c", "q1": "d"}
    folder = write_beir(tmp_path / "x", documents, queries, {"q0": {"d0": 1, "d1": 0}, "q1": {"d9": 1}})
    vectors = {text: np.eye(4)[i] + 0.1 for i, text in enumerate("abcd")} | {"c": np.array([1.0, 0, 0, 0])}
    (result,) = evaluate_reranking(TableEncoder(vectors), [load_reranking(folder)])
    assert result.scores["map"] == 50.0


@pytest.mark.parametrize("suite", [evaluate_retrieval, evaluate_reranking])
def test_broken_encoders_get_no_score(suite, corpus) -> None:  # type: ignore[no-untyped-def]
    folder, encoder, documents, *_ = corpus
    ranking = load_reranking(folder)
    broken = {**encoder.vectors, documents["d0"]: np.array([1.0, np.nan, 0.0, 0.0])}
    with pytest.raises(InputError, match=r"tiny: 1 of .* vectors are NaN or infinite"):
        suite(TableEncoder(broken), [ranking])
    with pytest.raises(InputError, match="tiny: all 6 vectors are equal; the encoder has collapsed"):
        suite(TableEncoder(dict.fromkeys(encoder.vectors, np.ones(4))), [ranking])


def test_search_is_independent_of_blocks_and_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    queries, documents = torch.randn(1500, 8, generator=generator), torch.randn(400, 8, generator=generator)
    order = torch.randperm(400, generator=generator)
    found = []
    for size in (1, 64, 400):
        best = TopK(queries, 20)
        for rows in torch.arange(400).split(size):
            best.add(documents[rows], order[rows])
        found.append(best.order)
    similarity = torch.nn.functional.normalize(queries) @ torch.nn.functional.normalize(documents).T
    expected = order[similarity.topk(20).indices]
    assert torch.equal(found[2], expected)
    assert torch.equal(found[1], expected)
    assert (found[0] == expected).float().mean() > 0.999  # a product with one document rounds differently


@pytest.mark.parametrize("size", [1, 3, 12])
def test_of_equal_cosines_the_smaller_numbers_are_found(size: int) -> None:
    """Two directions, each six times, and numbers of more than 32 bits in any order."""
    documents = torch.eye(2).repeat(6, 1)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0)) * 2**40
    best = TopK(torch.tensor([[1.0, 0.0], [0.0, -2.0]]), 8)
    for rows in torch.arange(12).split(size):
        best.add(documents[rows], order[rows])
    first, second = order[::2].sort().values.tolist(), order[1::2].sort().values.tolist()
    assert best.order.tolist() == [first + second[:2], first + second[:2]]
    assert best.similarity.tolist() == [[1.0] * 6 + [0.0] * 2, [0.0] * 6 + [-1.0] * 2]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("k", [1, 3, 10, 1000])
def test_the_score_of_a_ranking_equals_the_loops(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [f"d{number}" for number in range(rng.integers(2, 40))]
    judged = rng.choice(documents, rng.integers(1, len(documents)), replace=False).tolist()
    grades = {document: int(rng.integers(-1, 4)) for document in judged} | {judged[0]: 2, "not in the corpus": 1}
    order = rng.permutation(documents).tolist()
    ranked = [grades.get(document, 0) for document in order]
    metrics = {
        "ndcg": reference.ndcg,
        "map": reference.average_precision,
        "mrr": reference.reciprocal_rank,
        "recall": reference.recall,
    }
    for name, metric in metrics.items():
        found = ranking_score(f"{name}@{k}", ranked, list(grades.values()))
        assert found == pytest.approx(metric(order, grades, k), abs=1e-6)
