"""Retrieval from a corpus, and reranking of given candidates, by cosine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from sentrep.data.sets.beir import RankingSet
from sentrep.encoder import SentenceEncoder
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.search import TopK
from sentrep.evaluation.vectors import encode_texts, refuse_collapse
from sentrep.functional.ranking import average_precision, ndcg, recall, reciprocal_rank

DEPTH = 1000
"""Documents kept per query, as in BEIR and MTEB; MAP is cut there."""
BLOCK = 8192
"""Documents in memory at a time; enough that sorting them by length leaves little padding."""


def evaluate_retrieval(
    encoder: SentenceEncoder,
    sets: Sequence[RankingSet],
    *,
    batch_size: int = 64,
    block_size: int = BLOCK,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on retrieval: every document of the corpus ranked by its cosine with the query.

    The search is exact. Documents are read, encoded and searched ``block_size`` at a time; what stays is the ids of
    the corpus and `DEPTH` documents per query.

    Args:
        encoder: anything with `SentenceEncoder.encode`.
        sets: see `sentrep.data.load_retrieval`.
        batch_size: as for `SentenceEncoder.encode`.
        block_size: documents in memory at a time; changes the result by no more than rounding.
        show_progress_bar: as for `SentenceEncoder.encode`.

    Returns:
        One result per set: nDCG@10, MAP@1000, MRR@10 and recall at 1, 10 and 100 (`sentrep.functional.ranking`).

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    return [_retrieve(encoder, ranking, batch_size, block_size, show_progress_bar) for ranking in sets]


def evaluate_reranking(
    encoder: SentenceEncoder,
    sets: Sequence[RankingSet],
    *,
    batch_size: int = 64,
    block_size: int = BLOCK,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on reranking: the candidates of each query ranked by their cosine with it.

    Every candidate is encoded once, however many queries it belongs to, and its vector kept.

    Args:
        encoder: anything with `SentenceEncoder.encode`.
        sets: with candidates, see `sentrep.data.load_reranking`.
        batch_size: as for `SentenceEncoder.encode`.
        block_size: texts in memory at a time; changes the result by no more than rounding.
        show_progress_bar: as for `SentenceEncoder.encode`.

    Returns:
        One result per set: MAP, MRR@10 and nDCG@10.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    return [_rerank(encoder, ranking, batch_size, block_size, show_progress_bar) for ranking in sets]


def _retrieve(
    encoder: SentenceEncoder, ranking: RankingSet, batch_size: int, block_size: int, show: bool | None
) -> TaskResult:
    # equal cosines: the larger id first, as in trec_eval
    by_order = sorted(ranking.document_ids, reverse=True)
    order = {document: number for number, document in enumerate(by_order)}
    best = TopK(_queries(encoder, ranking, batch_size, show), DEPTH)
    for block in _blocks(ranking.documents(), block_size):
        vectors = encode_texts(encoder, [text for _, text in block], ranking.name, batch_size, show)
        best.add(torch.from_numpy(vectors), torch.tensor([order[document] for document, _ in block]))
    found = [[by_order[number] for number in row] for row in best.order.tolist()]
    graded = _graded(ranking, found)
    scores = {
        "ndcg@10": _mean(ndcg(ranked, judged, 10) for ranked, judged in graded),
        f"map@{DEPTH}": _mean(average_precision(ranked, _relevant(judged), DEPTH) for ranked, judged in graded),
        "mrr@10": _mean(reciprocal_rank(ranked, 10) for ranked, _ in graded),
        **{
            f"recall@{k}": _mean(recall(ranked, _relevant(judged), k) for ranked, judged in graded)
            for k in (1, 10, 100)
        },
    }
    counts = {"documents": len(ranking.document_ids), "queries": len(ranking.queries)}
    return TaskResult(ranking.name, "BEIR", ranking.split, counts, scores, ranking.fingerprint)


def _rerank(
    encoder: SentenceEncoder, ranking: RankingSet, batch_size: int, block_size: int, show: bool | None
) -> TaskResult:
    candidates = ranking.candidates
    assert candidates is not None, "load the set with load_reranking"
    wanted = {document for documents in candidates.values() for document in documents}
    queries = _queries(encoder, ranking, batch_size, show)
    rows: dict[str, int] = {}
    parts = []
    for block in _blocks((found for found in ranking.documents() if found[0] in wanted), block_size):
        for document, _ in block:
            rows[document] = len(rows)
        parts.append(encode_texts(encoder, [text for _, text in block], ranking.name, batch_size, show))
    vectors = torch.from_numpy(np.concatenate(parts))
    found: list[list[str]] = []
    for query, vector in zip(ranking.queries, queries, strict=True):
        ordered = sorted(candidates[query], reverse=True)
        if not ordered:  # what is relevant to this query is not in the corpus
            found.append([])
            continue
        best = TopK(vector[None], len(ordered))
        best.add(vectors[[rows[document] for document in ordered]], torch.arange(len(ordered)))
        found.append([ordered[number] for number in best.order[0].tolist()])
    graded = _graded(ranking, found)
    scores = {
        "map": _mean(average_precision(ranked, _relevant(judged), len(ranked)) for ranked, judged in graded),
        "mrr@10": _mean(reciprocal_rank(ranked, 10) for ranked, _ in graded),
        "ndcg@10": _mean(ndcg(ranked, judged, 10) for ranked, judged in graded),
    }
    counts = {"candidates": sum(map(len, found)), "queries": len(found)}
    return TaskResult(ranking.name, "reranking", ranking.split, counts, scores, ranking.fingerprint)


def _queries(encoder: SentenceEncoder, ranking: RankingSet, batch_size: int, show: bool | None) -> Tensor:
    vectors = encode_texts(encoder, list(ranking.queries.values()), ranking.name, batch_size, show)
    refuse_collapse(vectors, ranking.name)
    return torch.from_numpy(vectors).to(encoder.device)


def _graded(ranking: RankingSet, found: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
    """For each query: grades in the order of its ranking, and grades of all that was judged."""
    return [
        ([judged.get(document, 0) for document in documents], list(judged.values()))
        for judged, documents in zip((ranking.judgements[query] for query in ranking.queries), found, strict=True)
    ]


def _relevant(judged: Sequence[int]) -> int:
    return sum(grade > 0 for grade in judged)


def _mean(scores: Iterable[float]) -> float:
    return 100.0 * float(np.mean(list(scores)))


def _blocks(documents: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    rest = iter(documents)
    while block := list(islice(rest, size)):
        yield block
