"""Whether the adapted model is better, with intervals, on queries that had no part in any choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import NDArray
from torch import Tensor

from sentrep.adaptation.outcome import Estimate, TaskOutcome
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.evaluation.proxy import CRITERION, proxy_values, rank_passages, score_rankings

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
    tasks: ProxyTasks, start: pd.DataFrame, adapted: pd.DataFrame, bm25: dict[str, list[str]] | None = None
) -> tuple[TaskOutcome, ...]:
    """Each task before and after, with intervals.

    Args:
        tasks: the questions.
        start: the scores of the untouched model (`sentrep.evaluation.proxy.score_rankings`).
        adapted: the scores of the adapted model on the same queries.
        bm25: rankings by words alone (`sentrep.evaluation.proxy.word_matching`).
    """
    words = {} if bm25 is None else proxy_values(score_rankings(tasks, bm25))
    gained = gains(start, adapted)
    return tuple(
        TaskOutcome(
            name=task.replace("-", " "),
            queries=len(rows),
            candidates=len(tasks.passages),
            overlap=tasks.overlap(task),
            bm25=words.get(f"{CRITERION}/{task}"),
            start=mean(start.loc[rows]),
            adapted=mean(adapted.loc[rows]),
            difference=mean(gained.loc[rows]),
        )
        for task, rows in start.groupby("task", sort=False).groups.items()
    )


def decide(start: pd.DataFrame, adapted: pd.DataFrame) -> tuple[Verdict, Estimate]:
    """The verdict, and its reason: the difference of the mean over all queries.

    A model is better if it gains over all queries, beyond the interval, and loses on no task beyond its interval.
    """
    gained = gains(start, adapted)
    whole = mean(gained)
    loses = any(mean(own).high < 0 for _, own in gained.groupby("task"))
    return ("better" if whole.low > 0 and not loses else "not better"), whole


def gains(start: pd.DataFrame, adapted: pd.DataFrame) -> pd.DataFrame:
    """The second's scores minus the first's, query by query."""
    return start.assign(ndcg=adapted["ndcg"] - start["ndcg"])


def mean(scores: pd.DataFrame) -> Estimate:
    """The mean over the queries, with its 95 % interval.

    Queries of one document depend on each other, so the bootstrap draws documents.
    """
    value = float(scores["ndcg"].mean())
    if scores["ndcg"].nunique() == 1:  # of which scipy's interval is NaN
        return Estimate(value, value, value)
    documents = scores.groupby("document", sort=False)["ndcg"].agg(["sum", "size"])
    interval = scipy.stats.bootstrap(
        (documents["sum"].to_numpy(), documents["size"].to_numpy()), _mean_of_sums, paired=True, vectorized=True,
        n_resamples=_RESAMPLES, batch=100, method="percentile", rng=0,
    ).confidence_interval  # fmt: skip
    return Estimate(value, float(interval.low), float(interval.high))


def _mean_of_sums(sums: Array, counts: Array, axis: int = -1) -> Array:
    """The mean over the queries, from their documents' sums and numbers of queries."""
    return sums.sum(axis) / counts.sum(axis)
