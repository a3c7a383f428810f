"""Results of an evaluation as a table on the screen and as a file."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from sentrep.data.sets.transfer import TRANSFER_NAMES
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.loading.fingerprint import fingerprint
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import PROTOCOLS, STSResult, display_name, senteval_average, side_by_side
from sentrep.io.harmless import screen_text
from sentrep.version import __version__

_RECORDED = ("torch", "transformers", "tokenizers", "scipy", "scikit-learn")
_METRICS = {
    "spearman": "Spearman",
    "pearson": "Pearson",
    "f1": "F1",
    "full f1": "full F1",
    "ndcg@10": "nDCG@10",
    "map": "MAP",
    "map@1000": "MAP@1000",
    "mrr@10": "MRR@10",
    "v-measure": "V-measure",
    "v-measure sd": "V-measure sd",
}
_DETAILS = ("pearson", "dev accuracy", "accuracy sd", "v-measure sd", "recall@1")
"""Scores that only a detailed table shows; files have them all."""
_TASKS = {name: "SST2" if name == "sst2" else name.upper() for name in TRANSFER_NAMES}

AnyResult = STSResult | TaskResult


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
    """Of the libraries that the numbers depend on."""
    seconds: float
    """Wall time."""
    results: list[TaskResult]
    precision: str = "fp32"
    """What the encoder computed in: ``fp32`` or ``bf16``."""
    suite: str = "sts"
    """Which suite: one of `sentrep.evaluation.SUITES`."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """What a reader of the scores must know, a sentence each."""

    @classmethod
    def of(
        cls,
        encoder: SentenceEncoder,
        model: str,
        results: Sequence[AnyResult],
        seconds: float,
        precision: str = "fp32",
        suite: str = "sts",
        notes: Sequence[str] = (),
    ) -> Evaluation:
        """Describe ``encoder``, loaded from ``model``, and what it scored."""
        installed = {name: _version(name) for name in _RECORDED}
        return cls(
            model=model,
            fingerprint=fingerprint(encoder),
            pooling=encoder.pooling,
            prompt=encoder.prompt,
            max_seq_length=encoder.max_seq_length,
            results=as_tasks(results),
            seconds=seconds,
            precision=precision,
            suite=suite,
            notes=list(notes),
            versions={"sentrep": __version__, **{name: version for name, version in installed.items() if version}},
        )


def print_results(
    results: Sequence[AnyResult],
    *,
    detail: bool = False,
    notes: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print one line per set, and a mean; where SICK-R is there as MTEB takes it, SentEval and MTEB side by side.

    Args:
        results: of one suite.
        detail: add a line per sub-set, and the scores of second rank: Pearson's correlation, standard deviations,
            development scores, recall@1.
        notes: sentences to print below.
        console: where to; None for standard output.
    """
    tasks = as_tasks(results)
    console = console or Console()
    scores = main_scores(tasks)
    if "sickr-all" in scores and not detail and all(side_by_side({name: 0.0}) for name in scores):
        console.print(_protocols_table(tasks, side_by_side(scores)))
    else:
        table = _table(tasks, detail)
        add_mean(table, scores)
        console.print(table)
    for note in notes:
        console.print(screen_text(note), soft_wrap=True, highlight=False)


def as_tasks(results: Sequence[AnyResult]) -> list[TaskResult]:
    """Results in the form that all suites share."""
    return [result.task if isinstance(result, STSResult) else result for result in results]


def main_scores(tasks: Sequence[TaskResult]) -> dict[str, float]:
    """The main score of each set by its name."""
    return {task.name: task.main_score for task in tasks}


def average(scores: Mapping[str, float]) -> tuple[str, float] | None:
    """What papers print as "Avg.", and of what it is the mean: the seven STS sets, or the seven transfer tasks."""
    if (similarity := senteval_average(scores)) is not None:
        return "the seven SentEval sets", similarity
    if set(TRANSFER_NAMES) <= set(scores):
        return "the seven SentEval tasks", sum(scores[name] for name in TRANSFER_NAMES) / len(TRANSFER_NAMES)
    return None


def set_name(name: str) -> str:
    """A set's name as papers print it; other names stay as they are."""
    return _TASKS.get(name) or display_name(name)


def metric_name(metric: str) -> str:
    """A metric's name as papers print it."""
    return _METRICS.get(metric, metric)


def columns(tasks: Sequence[TaskResult], attribute: str) -> list[str]:
    """The keys of all ``scores`` or ``counts``, in the order in which they first occur."""
    return list(dict.fromkeys(key for task in tasks for key in getattr(task, attribute)))


def plain_table(*columns: str) -> Table:
    """An empty table without frame, text columns to the left (set, protocol) and numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        text = column in ("set", "protocol")
        table.add_column(column, justify="left" if text else "right", no_wrap=not text)
    return table


def add_mean(table: Table, scores: Mapping[str, float]) -> None:
    """Add a closing line with the mean: of the seven SentEval sets or tasks where all are there, else of all sets."""
    if (found := average(scores)) is not None:
        table.add_section()
        table.add_row("Avg.", "", found[0], f"{found[1]:.2f}")
    elif len(scores) > 1:
        table.add_section()
        table.add_row("mean", "", f"of {len(scores)} sets", f"{sum(scores.values()) / len(scores):.2f}")


def _table(tasks: Sequence[TaskResult], detail: bool) -> Table:
    metrics = [metric for metric in columns(tasks, "scores") if detail or metric not in _DETAILS]
    units = dict.fromkeys(list(task.counts)[-1] for task in tasks)
    table = plain_table("set", " / ".join(units) or "items", "protocol", *map(metric_name, metrics))
    for task in tasks:
        cells = [f"{task.scores[metric]:.2f}" if metric in task.scores else "" for metric in metrics]
        name, protocol = screen_text(set_name(task.name)), screen_text(task.protocol)
        table.add_row(name, str(list(task.counts.values())[-1]), protocol, *cells)
        if detail:
            for name, (count, score) in task.per_subset.items():
                table.add_row(f"  {screen_text(name)}", str(count), "sub-set", "—" if score is None else f"{score:.2f}")
    return table


def _protocols_table(tasks: Sequence[TaskResult], both: Mapping[str, Mapping[str, float]]) -> Table:
    """Similarity sets with a column per protocol."""
    table = plain_table("set", "pairs", *PROTOCOLS)
    pairs: dict[str, list[str]] = {}
    for task in tasks:
        row = "SICK-R" if task.name == "sickr-all" else set_name(task.name)
        pairs.setdefault(row, []).append(str(task.counts["pairs"]))
    for row, counts in pairs.items():
        table.add_row(screen_text(row), " / ".join(counts), *_cells(both.get(row, {})))
    if "Avg." in both:
        table.add_section()
        table.add_row("Avg.", "", *_cells(both["Avg."]))
    return table


def _cells(scores: Mapping[str, float]) -> list[str]:
    return [f"{scores[protocol]:.2f}" if protocol in scores else "—" for protocol in PROTOCOLS]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
