"""Whether the adapted model is better, with intervals, on queries that had no part in any choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import NDArray
from torch import Tensor

from sentrep.adaptation.outcome import Estimate, Verdict
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.evaluation.proxy import CRITERION, proxy_values, rank_passages, score_rankings
from sentrep.reports.frames import as_frame

TRUSTED = 3.0
"""Points that a model without matching words must gain to be called better. The questions resemble the training pairs,
so training raises the score on them: three in ten models that gained less had lost on labels (docs/adapt.md)."""
_RESAMPLES = 2000
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """The verdict on the adapted model, with its reasons."""

    verdict: Verdict
    difference: Estimate
    """The difference of the means over all queries, with its interval."""
    tasks: pd.DataFrame
    """See `compare_tasks`."""


def judge(
    tasks: ProxyTasks,
    start: Callable[[Sequence[str]], Tensor],
    adapted: Callable[[Sequence[str]], Tensor],
    bm25: dict[str, list[str]] | None = None,
    trusted: float = 0.0,
) -> Judgement:
    """Compare two models.

    Args:
        tasks: the tasks to judge by.
        start: vectors (n, D) of n texts by the untouched model.
        adapted: (n, D') by the adapted one.
        bm25: rankings by words alone (`sentrep.evaluation.proxy.word_matching`).
        trusted: the least gain that is believed; `TRUSTED` for an adapted model without matching words.
    """
    before, after = (score_rankings(tasks, rank_passages(tasks, encode)) for encode in (start, adapted))
    return Judgement(*decide(before, after, trusted), compare_tasks(tasks, before, after, bm25))


def compare_tasks(
    tasks: ProxyTasks, start: pd.DataFrame, adapted: pd.DataFrame, bm25: dict[str, list[str]] | None = None
) -> pd.DataFrame:
    """A row for each task: scores × 100 before and after, with their intervals.

    The columns are ``task``, ``queries``, ``texts`` (among which the answers are), ``shared words`` (the share of a
    query's words that occur in its answer), ``BM25``; ``before``, ``after`` and ``difference``, each with its ``low``
    and ``high``; and ``verdict``.

    Args:
        tasks: the questions.
        start: the scores of the untouched model (`sentrep.evaluation.proxy.score_rankings`).
        adapted: the scores of the adapted model on the same queries.
        bm25: rankings by words alone (`sentrep.evaluation.proxy.word_matching`).
    """
    words = {} if bm25 is None else proxy_values(score_rankings(tasks, bm25))
    sides = {"before": start, "after": adapted, "difference": gains(start, adapted)}
    rows: list[dict[str, Any]] = []
    for task, asked in start.groupby("task", sort=False).groups.items():
        about = {"task": task.replace("-", " "), "queries": len(asked), "texts": len(tasks.passages)}
        row = {**about, "shared words": tasks.overlap(task), "BM25": words.get(f"{CRITERION}/{task}")}
        for side, scores in sides.items():
            found = mean(scores.loc[asked])
            row |= {side: found.value, f"{side} low": found.low, f"{side} high": found.high}
        rows.append({**row, "verdict": _beyond(found)})
    return as_frame(rows)


def _beyond(difference: Estimate) -> str:
    """Whether the whole interval of a difference is above 0, or below."""
    return "better" if difference.low > 0 else "worse" if difference.high < 0 else "cannot be told"


def decide(start: pd.DataFrame, adapted: pd.DataFrame, trusted: float = 0.0) -> tuple[Verdict, Estimate]:
    """The verdict, and its reason: the difference of the mean over all queries.

    A model is better if it gains over all queries, beyond the interval, and loses on no task beyond its interval. If
    the gain is then below ``trusted``, nothing can be told.
    """
    gained = gains(start, adapted)
    whole = mean(gained)
    if whole.low <= 0 or any(mean(own).high < 0 for _, own in gained.groupby("task")):
        return "not better", whole
    return ("better" if whole.value >= trusted else "cannot be told"), whole


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
