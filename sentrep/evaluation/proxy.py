"""Scores without labels, on retrieval tasks from a text's own structure (`sentrep.data.sets.proxy_tasks`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentrep.data.sets.proxy_tasks import ProxyTasks, document_of
from sentrep.evaluation.retrieval import TopK, ranking_score
from sentrep.evaluation.vectors import refuse_collapse, refuse_not_finite

DEPTH = 10
"""Ranks that count."""
CRITERION = "proxy"
"""The mean over the queries of all tasks of nDCG@10 × 100, and the first part of each task's own name."""


@dataclass(frozen=True)
class TaskScores:
    """The scores of each query of one task."""

    documents: list[str]
    """The document of each query; queries of one document are not independent."""
    ndcg: NDArray[np.float64]
    """nDCG@10 × 100."""


def rank_passages(tasks: ProxyTasks, encode: Callable[[Sequence[str]], Tensor]) -> dict[str, list[str]]:
    """By query: the ids of the ten nearest passages, without the query's own passage.

    Args:
        tasks: the questions.
        encode: vectors (n, D) of n texts, float32.

    Raises:
        InputError: a vector is not finite, or all are equal.
    """
    texts = list(dict.fromkeys([*tasks.passages.values(), *tasks.queries.values()]))
    vectors = encode(texts)
    refuse_not_finite(vectors.numpy(), tasks.name)
    refuse_collapse(vectors.numpy(), tasks.name)
    row = {text: number for number, text in enumerate(texts)}
    ids = list(tasks.passages)
    best = TopK(vectors[[row[text] for text in tasks.queries.values()]], DEPTH + 1)
    best.add(vectors[[row[text] for text in tasks.passages.values()]], torch.arange(len(ids)))
    found = {query: [ids[n] for n in order] for query, order in zip(tasks.queries, best.order.tolist(), strict=True)}
    return {query: [passage for passage in order if passage != query][:DEPTH] for query, order in found.items()}


def score_rankings(tasks: ProxyTasks, found: dict[str, list[str]]) -> dict[str, TaskScores]:
    """By task: the scores of each query of these rankings."""
    scores = {}
    for task, answers in tasks.answers.items():
        ndcg = [
            100 * ranking_score(f"ndcg@{DEPTH}", [own.get(passage, 0) for passage in found[query]], list(own.values()))
            for query, own in answers.items()
        ]
        scores[task] = TaskScores([document_of(query) for query in answers], np.array(ndcg))
    return scores


def proxy_values(scores: Mapping[str, TaskScores]) -> dict[str, float]:
    """The logged scores: ``proxy``, the mean over all queries, and ``proxy/<task>``, the mean over a task's queries."""
    tasks = {f"{CRITERION}/{task}": float(found.ndcg.mean()) for task, found in scores.items()}
    return {CRITERION: float(np.concatenate([found.ndcg for found in scores.values()]).mean()), **tasks}


def word_matching(tasks: ProxyTasks) -> dict[str, list[str]] | None:
    """The rankings of BM25 (by ``bm25s``), in the form of `rank_passages`; None if ``bm25s`` is not installed."""
    try:
        import bm25s  # an optional package
    except ImportError:
        return None
    ids = list(tasks.passages)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(tasks.passages.values()), stopwords="en", show_progress=False), show_progress=False)
    asked = bm25s.tokenize(list(tasks.queries.values()), stopwords="en", show_progress=False)
    ranked, _ = index.retrieve(asked, k=min(DEPTH + 1, len(ids)), show_progress=False)
    return {
        query: [ids[number] for number in order if ids[number] != query][:DEPTH]
        for query, order in zip(tasks.queries, ranked.tolist(), strict=True)
    }
