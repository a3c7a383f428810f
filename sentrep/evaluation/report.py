"""Results of an evaluation: a table on the screen; JSON with everything, Markdown for people, CSV for tables."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from sentrep.data.sets.transfer import TRANSFER_NAMES
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.evaluation.denosent_suite import CLASSIFICATIONS
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import PROTOCOLS, SENTEVAL_SETS, display_name, side_by_side
from sentrep.reports.document import Document, Table, Text
from sentrep.reports.frames import as_frame, csv_table, screen_table
from sentrep.reports.saving import save_as
from sentrep.reports.text import screen_text
from sentrep.version import __version__

_RECORDED = ("torch", "transformers", "tokenizers", "scipy", "scikit-learn")
_AVERAGES = {
    "the seven SentEval sets": SENTEVAL_SETS,
    "the seven SentEval tasks": TRANSFER_NAMES,
    "the ten classifications": CLASSIFICATIONS,
}
_METRICS = {
    "spearman": "Spearman",
    "pearson": "Pearson",
    "f1": "F1",
    "full f1": "full F1",
    "ndcg@10": "nDCG@10",
    "map": "MAP",
    "map@1": "MAP@1",
    "mrr@1": "MRR@1",
    "map@1000": "MAP@1000",
    "mrr@10": "MRR@10",
    "v-measure": "V-measure",
    "v-measure sd": "V-measure sd",
}
_DETAILS = ("pearson", "dev accuracy", "accuracy sd", "v-measure sd", "recall@1")
"""Scores that only a detailed table shows; files have them all."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: what was scored, how, and the scores."""

    model: str
    """Path or hub id as given."""
    fingerprint: str
    """Hash of weights, tokenizer, prompt and pooling; equal fingerprints mean equal embeddings."""
    pooling: str
    prompt: str | None
    max_seq_length: int | None
    """Longest sequence in tokens; None means the model's own limit."""
    versions: dict[str, str]
    """Versions of the libraries that the numbers depend on."""
    seconds: float
    """Wall time."""
    results: list[TaskResult]
    precision: str = "fp32"
    """What the encoder computed in: ``fp32`` or ``bf16``, or the backend of its graph."""
    suite: str = "sts"
    """Which suite: one of `sentrep.evaluation.SUITES`."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """What a reader of the scores must know, a sentence each."""

    @classmethod
    def of(
        cls,
        encoder: SentenceEncoder,
        model: str,
        results: Sequence[TaskResult],
        seconds: float,
        precision: str = "fp32",
        suite: str = "sts",
        notes: Sequence[str] = (),
    ) -> Evaluation:
        """Describe ``encoder``, loaded from ``model``, and what it scored."""
        installed = {name: importlib.metadata.version(name) for name in _RECORDED}
        return cls(
            model=model,
            fingerprint=fingerprint(encoder),
            pooling=encoder.pooling,
            prompt=encoder.prompt,
            max_seq_length=encoder.max_seq_length,
            results=list(results),
            seconds=seconds,
            precision=precision,
            suite=suite,
            notes=list(notes),
            versions={"sentrep": __version__, **installed},
        )


def print_results(
    tasks: Sequence[TaskResult],
    *,
    detail: bool = False,
    notes: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print one line per set, and a mean; where SICK-R is there as MTEB takes it, SentEval and MTEB side by side.

    Args:
        tasks: results of one suite.
        detail: add a line per sub-set, and the scores of second rank: Pearson's correlation, standard deviations,
            development scores, recall@1.
        notes: sentences to print below.
        console: where to; None for standard output.
    """
    console = console or Console()
    scores = main_scores(tasks)
    if "sickr-all" in scores and not detail and all(side_by_side({name: 0.0}) for name in scores):
        both = side_by_side(scores)
        closing = ["Avg.", "", *_both(both["Avg."])] if "Avg." in both else []
        console.print(screen_table(_protocols_table(tasks, both), closing))
    else:
        one = average(scores) is not None or len({next(iter(task.scores)) for task in tasks}) == 1
        closing = mean_row(scores) if one else []  # of accuracies and MAP together a mean would mean nothing
        console.print(screen_table(_table(tasks, detail), closing))
    for note in notes:
        console.print(screen_text(note), soft_wrap=True, highlight=False)


def main_scores(tasks: Sequence[TaskResult]) -> dict[str, float]:
    """The main score of each set by its name."""
    return {task.name: task.main_score for task in tasks}


def average(scores: Mapping[str, float]) -> tuple[str, float] | None:
    """What papers print as "Avg.", and of what it is the mean."""
    for what, names in _AVERAGES.items():
        if set(names) <= set(scores):
            return what, sum(scores[name] for name in names) / len(names)
    return None


def metric_name(metric: str) -> str:
    """A metric's name as papers print it."""
    return _METRICS.get(metric, metric)


def columns(tasks: Sequence[TaskResult], attribute: str) -> list[str]:
    """The keys of all ``scores`` or ``counts``, in the order in which they first occur."""
    return list(dict.fromkeys(key for task in tasks for key in getattr(task, attribute)))


def cells(scores: Mapping[str, float], metrics: Sequence[str]) -> list[str]:
    """Scores in a table; empty where one is lacking."""
    return [f"{scores[metric]:.2f}" if metric in scores else "" for metric in metrics]


def mean_row(scores: Mapping[str, float]) -> list[str]:
    """A closing row: the mean of the seven SentEval sets or tasks where all are there, else of all sets, if several."""
    if (found := average(scores)) is not None:
        return ["Avg.", "", found[0], f"{found[1]:.2f}"]
    if len(scores) < 2:
        return []
    return ["mean", "", f"of {len(scores)} sets", f"{sum(scores.values()) / len(scores):.2f}"]


def _table(tasks: Sequence[TaskResult], detail: bool) -> pd.DataFrame:
    metrics = [metric for metric in columns(tasks, "scores") if detail or metric not in _DETAILS]
    units = dict.fromkeys(list(task.counts)[-1] for task in tasks)
    rows = []
    for task in tasks:
        count = str(list(task.counts.values())[-1])
        rows.append([display_name(task.name), count, task.protocol, *cells(task.scores, metrics)])
        rows += [["  paper", "", "", *cells(task.published, metrics)]] if task.published else []
        for name, (size, score) in task.per_subset.items() if detail else ():
            found = ["—" if score is None else f"{score:.2f}", *[""] * (len(metrics) - 1)]
            rows.append([f"  {name}", str(size), "sub-set", *found])
    head = ["set", " / ".join(units) or "items", "protocol", *map(metric_name, metrics)]
    return as_frame(rows, columns=head)


def _protocols_table(tasks: Sequence[TaskResult], both: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Similarity sets with a column per protocol."""
    pairs: dict[str, list[str]] = {}
    for task in tasks:
        row = "SICK-R" if task.name == "sickr-all" else display_name(task.name)
        pairs.setdefault(row, []).append(str(task.counts["pairs"]))
    rows = [[row, " / ".join(counts), *_both(both.get(row, {}))] for row, counts in pairs.items()]
    return as_frame(rows, columns=["set", "pairs", *PROTOCOLS])


def _both(scores: Mapping[str, float]) -> list[str]:
    return [f"{scores[protocol]:.2f}" if protocol in scores else "—" for protocol in PROTOCOLS]


def write_report(evaluation: Evaluation, path: str | Path) -> None:
    """Write an evaluation to a file; the ending chooses the format.

    Args:
        evaluation: what to write.
        path: ``.json`` (everything), ``.md`` (a table for people) or ``.csv`` (a row per set and sub-set).

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    formats = {".json": _json, ".md": _markdown, ".csv": _csv}
    save_as(path, {ending: functools.partial(form, evaluation) for ending, form in formats.items()})


def _json(evaluation: Evaluation) -> str:
    content: dict[str, Any] = dataclasses.asdict(evaluation)
    scores = main_scores(evaluation.results)
    found = average(scores)
    content["average"] = None if found is None else found[1]
    if evaluation.suite == "sts":
        content["protocols"] = side_by_side(scores)
    content["results"] = [_record(task) for task in evaluation.results]
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _record(task: TaskResult) -> dict[str, Any]:
    main, unit = next(iter(task.scores)), list(task.counts)[-1]
    record = {"name": task.name, **task.counts, "protocol": task.protocol, "split": task.split, "dataset": task.dataset}
    record |= task.scores
    if task.published:
        record["published"] = task.published
    if task.per_subset or main == "spearman":
        record["per_subset"] = {name: {unit: count, main: score} for name, (count, score) in task.per_subset.items()}
    return record


def _markdown(evaluation: Evaluation) -> str:
    tasks = evaluation.results
    counts, metrics = columns(tasks, "counts"), columns(tasks, "scores")
    header = ["set", *counts, "protocol", *(f"{metric_name(metric)} × 100" for metric in metrics)]
    rows = []
    for task in tasks:
        numbers = [str(task.counts.get(count, "")) for count in counts]
        rows.append([display_name(task.name), *numbers, task.protocol, *cells(task.scores, metrics)])
        if task.published:
            rows.append(["paper", *[""] * len(counts), "", *cells(task.published, metrics)])
    if (found := average(main_scores(tasks))) is not None:
        rows.append(["Avg.", *[""] * len(counts), found[0], f"{found[1]:.2f}", *[""] * (len(metrics) - 1)])
    table = Table(as_frame(rows, columns=header), "Scores")
    return Document([table, *map(Text, evaluation.notes), Text(_description(evaluation))]).markdown()


def _description(evaluation: Evaluation) -> str:
    return (
        f"Model {evaluation.model} ({evaluation.fingerprint}), pooling {evaluation.pooling}"
        + (f", prompt {evaluation.prompt}" if evaluation.prompt else "")
        + f", longest sequence {evaluation.max_seq_length or 'the model’s own'}; "
        + ", ".join(f"{name} {version}" for name, version in evaluation.versions.items())
        + f"; {evaluation.precision}, {evaluation.seconds:.1f} s."
    )


def _csv(evaluation: Evaluation) -> str:
    tasks = evaluation.results
    rows: list[dict[str, Any]] = []
    for task in tasks:
        which = {"set": task.name, "protocol": task.protocol}
        published = {f"published {metric}": score for metric, score in task.published.items()}
        rows.append({**which, **task.counts, **task.scores, **published})
        main, unit = next(iter(task.scores)), list(task.counts)[-1]
        rows += [{**which, "subset": name, unit: n, main: score} for name, (n, score) in task.per_subset.items()]
    scores = [*columns(tasks, "scores"), *(f"published {metric}" for metric in columns(tasks, "published"))]
    names = ["set", "subset", *columns(tasks, "counts"), "protocol", *scores]
    return csv_table(as_frame(rows, columns=names))
