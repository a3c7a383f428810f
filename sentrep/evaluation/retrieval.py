"""Retrieval from a corpus, and reranking of given candidates, by cosine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics.functional.retrieval import (
    retrieval_average_precision,
    retrieval_normalized_dcg,
    retrieval_recall,
    retrieval_reciprocal_rank,
)

from sentrep.data.sets.beir import RankingSet
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.search import BLOCK, TopK
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.vectors import Vectors, encode_texts, refuse_collapse
from sentrep.functional.similarity import cosine_similarity_matrix
from sentrep.io.chunks import chunks_of

DEPTH = 1000
"""Documents kept per query, as in BEIR and MTEB; MAP is cut there."""
_BINARY = {"map": retrieval_average_precision, "mrr": retrieval_reciprocal_rank, "recall": retrieval_recall}


def evaluate_retrieval(
    encoder: SentenceEncoder,
    sets: Sequence[RankingSet],
    *,
    batch_size: int = 64,
    block_size: int = BLOCK,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on retrieval: every document of the corpus ranked by its cosine with the query.

    The search is exact. Documents are read, encoded and searched ``block_size`` at a time. Only the ids of the corpus
    and `DEPTH` documents per query stay in memory.

    Args:
        encoder: anything with `SentenceEncoder.encode`, of which ``batch_size`` and ``show_progress_bar`` are.
        sets: see `sentrep.data.load_retrieval`.
        block_size: documents in memory at a time; changes the result by no more than rounding.

    Returns:
        One result per set: nDCG@10, MAP@1000, MRR@10 and recall at 1, 10 and 100 (`ranking_score`).

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    results = []
    for ranking in sets:
        # of equal cosines the larger id comes first, as in trec_eval
        by_order = sorted(ranking.document_ids, reverse=True)
        order = {document: number for number, document in enumerate(by_order)}
        best = TopK(_queries(encoder, ranking, batch_size, show_progress_bar), DEPTH)
        for ids, vectors in _blocks(encoder, ranking, order, block_size, batch_size, show_progress_bar):
            best.add(torch.from_numpy(vectors), torch.tensor([order[document] for document in ids]))
        found = [[by_order[number] for number in row] for row in best.order.tolist()]
        metrics = ("ndcg@10", f"map@{DEPTH}", "mrr@10", "recall@1", "recall@10", "recall@100")
        counts = {"documents": len(ranking.document_ids), "queries": len(ranking.queries)}
        results.append(_scored(ranking, "BEIR", counts, found, metrics))
    return results


def evaluate_reranking(
    encoder: SentenceEncoder,
    sets: Sequence[RankingSet],
    *,
    batch_size: int = 64,
    block_size: int = BLOCK,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on reranking: the candidates of each query ranked by their cosine with it.

    Every candidate is encoded once, even if it belongs to several queries, and its vector is kept.

    Args:
        encoder: as for `evaluate_retrieval`, like the others.
        sets: with candidates, see `sentrep.data.load_reranking`.

    Returns:
        One result per set: MAP, MRR@10 and nDCG@10.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    results = []
    for ranking in sets:
        candidates = ranking.candidates
        assert candidates is not None, "load the set with load_reranking"
        wanted = {document for documents in candidates.values() for document in documents}
        queries = _queries(encoder, ranking, batch_size, show_progress_bar)
        blocks = list(_blocks(encoder, ranking, wanted, block_size, batch_size, show_progress_bar))
        rows = {document: row for row, document in enumerate(document for ids, _ in blocks for document in ids)}
        vectors = torch.from_numpy(np.concatenate([block for _, block in blocks])).to(queries.device)
        found = []
        for query, vector in zip(ranking.queries, queries, strict=True):
            ids = sorted(candidates[query], reverse=True)  # the order of equal cosines; may be empty
            cosines = cosine_similarity_matrix(vector[None], vectors[[rows[document] for document in ids]])[0]
            found.append([ids[place] for place in cosines.argsort(descending=True, stable=True).tolist()])
        counts = {"candidates": sum(map(len, found)), "queries": len(found)}
        results.append(_scored(ranking, "reranking", counts, found, ("map", "mrr@10", "ndcg@10")))
    return results


def _queries(encoder: SentenceEncoder, ranking: RankingSet, batch_size: int, show: bool | None) -> Tensor:
    vectors = encode_texts(encoder, list(ranking.queries.values()), ranking.name, batch_size, show)
    refuse_collapse(vectors, ranking.name)
    return torch.from_numpy(vectors).to(encoder.device)


def _blocks(
    encoder: SentenceEncoder, ranking: RankingSet, wanted: Container[str], size: int, batch_size: int, show: bool | None
) -> Iterator[tuple[list[str], Vectors]]:
    """Ids and vectors of the wanted documents, ``size`` at a time."""
    documents = (document for document in ranking.documents() if document[0] in wanted)
    for block in chunks_of(documents, size):
        vectors = encode_texts(encoder, [text for _, text in block], ranking.name, batch_size, show)
        yield [identity for identity, _ in block], vectors


def _scored(
    ranking: RankingSet, protocol: str, counts: dict[str, int], found: Sequence[Sequence[str]], metrics: Sequence[str]
) -> TaskResult:
    """The result of a set: means over the queries × 100; a metric without ``@k`` looks at whole rankings."""
    graded = [
        ([judged.get(document, 0) for document in documents], list(judged.values()))
        for judged, documents in zip((ranking.judgements[query] for query in ranking.queries), found, strict=True)
    ]
    scores = {metric: 100.0 * float(np.mean([ranking_score(metric, *one) for one in graded])) for metric in metrics}
    return TaskResult(ranking.name, protocol, ranking.split, counts, scores, ranking.fingerprint)


def ranking_score(metric: str, ranked: Sequence[int], judged: Sequence[int]) -> float:
    """How good one ranking is, as trec_eval, BEIR and MTEB have it: in [0, 1].

    Args:
        metric: ``ndcg@K`` (the grade is the gain), ``map@K``, ``mrr@K`` or ``recall@K``; without ``@K`` of all.
        ranked: the grade of the document at each rank, best rank first: above 0 is relevant, 0 is not, or not judged.
        judged: grades of every judged document of the query, found or not, in any order; at least one above 0.

    Examples:
        >>> round(ranking_score("ndcg@10", [1, 0, 2], [2, 1]), 4)  # (1 + 2 / 2) / (2 + 1 / log₂ 3)
        0.7602
        >>> round(ranking_score("map", [1, 0, 1], [1, 1, 1, 1]), 4)  # (1 / 1 + 2 / 3) / 4
        0.4167
    """
    name, _, cut = metric.partition("@")
    k = int(cut) if cut else max(len(ranked), 1)
    top = [max(grade, 0) for grade in ranked[:k]]
    rest = Counter(max(grade, 0) for grade in judged) - Counter(top)
    target = torch.tensor([*top, *[0] * (k - len(top)), *rest.elements()])
    preds = torch.arange(len(target), 0, -1, dtype=torch.float32)
    preds[k:] = 0  # not found
    if name == "ndcg":
        return float(retrieval_normalized_dcg(preds, target, k))
    score = float(_BINARY[name](preds, target > 0, k))
    # torchmetrics takes the mean precision over the relevant documents that were found, trec_eval over all
    return score * float(retrieval_recall(preds, target > 0, k)) if name == "map" else score
