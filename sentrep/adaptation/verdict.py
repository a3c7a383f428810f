"""Whether the adapted model is better, with intervals, on queries that had no part in any choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from torch import Tensor

from sentrep.adaptation.outcome import Estimate, TaskOutcome
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.evaluation.proxy import TaskScores, rank_passages, score_rankings

_RESAMPLES = 2000
Array = NDArray[np.float64]
Verdict = Literal["better", "not better"]


@dataclass(frozen=True)
class Judgement:
    """The verdict on the adapted model, with its reasons."""

    verdict: Verdict
    difference: Estimate
    """The difference of the means over all queries, with its interval."""
    tasks: tuple[TaskOutcome, ...]


def judge(
    tasks: ProxyTasks,
    start: Callable[[Sequence[str]], Tensor],
    adapted: Callable[[Sequence[str]], Tensor],
    bm25: dict[str, list[str]] | None = None,
) -> Judgement:
    """Compare two models.

    Args:
        tasks: the tasks to judge by.
        start: vectors (n, D) of n texts by the untouched model.
        adapted: (n, D') by the adapted one.
        bm25: rankings by words alone (`sentrep.evaluation.proxy.word_matching`).
    """
    before, after = (score_rankings(tasks, rank_passages(tasks, encode)) for encode in (start, adapted))
    return Judgement(*decide(before, after), compare_tasks(tasks, before, after, bm25))


def compare_tasks(
    tasks: ProxyTasks,
    start: Mapping[str, TaskScores],
    adapted: Mapping[str, TaskScores],
    bm25: dict[str, list[str]] | None = None,
) -> tuple[TaskOutcome, ...]:
    """Each task before and after, with intervals.

    Args:
        tasks: the questions.
        start: the scores of the untouched model.
        adapted: the scores of the adapted model on the same queries.
        bm25: rankings by words alone (`sentrep.evaluation.proxy.word_matching`).
    """
    words = None if bm25 is None else score_rankings(tasks, bm25)
    return tuple(
        TaskOutcome(
            name=task.replace("-", " "),
            queries=len(before.ndcg),
            candidates=len(tasks.passages),
            overlap=tasks.overlap(task),
            bm25=None if words is None else mean({task: words[task]}).value,
            start=mean({task: before}),
            adapted=mean({task: adapted[task]}),
            difference=difference({task: before}, {task: adapted[task]}),
        )
        for task, before in start.items()
    )


def decide(start: Mapping[str, TaskScores], adapted: Mapping[str, TaskScores]) -> tuple[Verdict, Estimate]:
    """The verdict, and its reason: the difference of the mean over all queries.

    A model is better if it gains over all queries, beyond the interval, and loses on no task beyond its interval.
    """
    whole = difference(start, adapted)
    loses = any(difference({task: start[task]}, {task: adapted[task]}).high < 0 for task in start)
    return ("better" if whole.low > 0 and not loses else "not better"), whole


def mean(scores: Mapping[str, TaskScores]) -> Estimate:
    """The mean over the queries of nDCG@10 × 100, with its 95 % interval."""
    return _estimate(scores, {task: found.ndcg for task, found in scores.items()})


def difference(start: Mapping[str, TaskScores], adapted: Mapping[str, TaskScores]) -> Estimate:
    """The second's score minus the first's, query by query."""
    return _estimate(start, {task: adapted[task].ndcg - found.ndcg for task, found in start.items()})


def _estimate(scores: Mapping[str, TaskScores], values: Mapping[str, Array]) -> Estimate:
    """Mean and interval; queries of one document depend on each other, so the bootstrap draws documents."""
    asked = [document for found in scores.values() for document in found.documents]
    place = {document: number for number, document in enumerate(dict.fromkeys(asked))}
    rows, flat = [place[document] for document in asked], np.concatenate([values[task] for task in scores])
    value = float(flat.mean())
    if np.ptp(flat) == 0:  # of which scipy's interval is NaN
        return Estimate(value, value, value)
    interval = scipy.stats.bootstrap(
        (np.bincount(rows, flat), np.bincount(rows)), _mean_of_sums, paired=True, vectorized=True,
        n_resamples=_RESAMPLES, batch=100, method="percentile", rng=0,
    ).confidence_interval  # fmt: skip
    return Estimate(value, float(interval.low), float(interval.high))


def _mean_of_sums(sums: Array, counts: Array, axis: int = -1) -> Array:
    """The mean over the queries, from their documents' sums and numbers of queries."""
    return sums.sum(axis) / counts.sum(axis)
