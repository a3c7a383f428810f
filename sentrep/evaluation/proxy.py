"""Scores without labels, on retrieval tasks from a text's own structure (`sentrep.data.sets.proxy_tasks`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import torch
from torch import Tensor

from sentrep.data.sets.proxy_tasks import ProxyTasks, document_of
from sentrep.evaluation.retrieval import TopK, ranking_score
from sentrep.evaluation.vectors import refuse_collapse, refuse_not_finite

DEPTH = 10
"""Ranks that count."""
CRITERION = "proxy"
"""The mean over the queries of all tasks of nDCG@10 × 100, and the first part of each task's own name."""


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


def score_rankings(tasks: ProxyTasks, found: dict[str, list[str]]) -> pd.DataFrame:
    """A row for each query of each task: its ``task``, its ``document``, and ``ndcg``, nDCG@10 × 100 of its ranking.

    Queries of one document are not independent.
    """
    rows = [
        (task, document_of(query), [own.get(passage, 0) for passage in found[query]], list(own.values()))
        for task, answers in tasks.answers.items()
        for query, own in answers.items()
    ]
    scores = pd.DataFrame([row[:2] for row in rows], columns=["task", "document"])
    return scores.assign(ndcg=[100 * ranking_score(f"ndcg@{DEPTH}", *row[2:]) for row in rows])


def proxy_values(scores: pd.DataFrame) -> dict[str, float]:
    """The logged scores: ``proxy``, the mean over all queries, and ``proxy/<task>``, the mean over a task's queries."""
    tasks = scores.groupby("task", sort=False)["ndcg"].mean().add_prefix(f"{CRITERION}/")
    return {CRITERION: float(scores["ndcg"].mean()), **tasks.to_dict()}


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
