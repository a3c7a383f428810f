"""Results of an evaluation: a table on the terminal, as Markdown and as CSV; JSON with everything."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from sentrep.data.sets.transfer import TRANSFER_NAMES
from sentrep.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import SENTEVAL_SETS, display_name
from sentrep.evaluation.table import show, write_report
from sentrep.version import __version__

_RECORDED = ("torch", "transformers", "tokenizers", "scipy", "scikit-learn")
_AVERAGES = (
    ("the seven SentEval sets", SENTEVAL_SETS),
    ("MTEB: SICK-R with all pairs", (*SENTEVAL_SETS[:-1], "sickr-all")),
    ("the seven SentEval tasks", TRANSFER_NAMES),
)
"""The sets of each mean that papers print as "Avg."."""
_METRICS = {"spearman": "Spearman", "pearson": "Pearson", "f1": "F1", "v_measure": "V-measure"}
_DETAILS = ("pearson", "dev accuracy")
"""Scores that only a detailed table shows; files contain all scores."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: the sets, the settings, and the scores."""

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
    """The precision of the computation: ``fp32`` or ``bf16``, or the backend of its graph."""
    suite: str = "sts"
    """``sts``, ``transfer`` or ``mteb``."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Notes for the reader, a sentence each."""

    @classmethod
    def of(
        cls, encoder: SentenceEncoder, model: str, results: Sequence[TaskResult], seconds: float, **more: Any
    ) -> Evaluation:
        """Describe ``encoder``, loaded from ``model``, and its scores; ``more`` are fields of the class."""
        versions = {"sentrep": __version__, **{name: importlib.metadata.version(name) for name in _RECORDED}}
        settings = (fingerprint(encoder), encoder.pooling, encoder.prompt, encoder.max_seq_length)
        return cls(model, *settings, versions, seconds, list(results), **more)

    def print(self, detail: bool = False, console: Console | None = None) -> None:
        """Print a line per set, means, and the notes.

        Args:
            detail: add a line per sub-set, and the scores of second rank: Pearson's correlation and development scores.
            console: the terminal; None for standard output.
        """
        show(suite_table(self.results, detail), self.notes, console)

    def write(self, path: str | Path, detail: bool = False) -> None:
        """Write the results to a file.

        Args:
            path: ends with ``.json`` (everything), ``.csv`` (a row per set and sub-set) or ``.md`` (as printed).
            detail: see `print`.

        Raises:
            InputError: for a place that cannot be written.
        """
        notes, table = [*self.notes, self._description()], suite_table(self.results, detail)
        write_report(Path(path), table, _rows(self.results), self._record(), notes)

    def _record(self) -> dict[str, Any]:
        means = averages({task.name: task.main_score for task in self.results})
        return {**dataclasses.asdict(self), "averages": means, "results": [_record(task) for task in self.results]}

    def _description(self) -> str:
        return (
            f"Model {self.model} ({self.fingerprint}), pooling {self.pooling}"
            + (f", prompt {self.prompt}" if self.prompt else "")
            + f", longest sequence {self.max_seq_length or 'the model’s own'}; "
            + ", ".join(f"{name} {version}" for name, version in self.versions.items())
            + f"; {self.precision}, {self.seconds:.1f} s."
        )


def averages(scores: Mapping[str, float]) -> dict[str, float]:
    """The averages that papers print as "Avg.", by name; an average needs all of its sets.

    Args:
        scores: main scores by name of the set; further sets are not counted.
    """
    return {
        what: sum(scores[name] for name in names) / len(names)
        for what, names in _AVERAGES
        if set(names) <= scores.keys()
    }


def suite_table(tasks: Sequence[TaskResult], detail: bool = False) -> pd.DataFrame:
    """A row for each set, then their `averages`, or else the mean of several sets; all cells are texts.

    Args:
        tasks: the results.
        detail: add a row per sub-set, and the scores of second rank.
    """
    size = " / ".join(dict.fromkeys(list(task.counts)[-1] for task in tasks if task.counts)) or "items"
    rows = []
    for task in tasks:
        shown = {name: score for name, score in task.scores.items() if detail or name not in _DETAILS}
        texts = {_METRICS.get(name, name): f"{score:.2f}" for name, score in shown.items()}
        count = str(["", *task.counts.values()][-1])
        rows.append({"set": display_name(task.name), size: count, "protocol": task.protocol, **texts})
        for name, (items, score) in task.per_subset.items() if detail else ():
            text = "—" if score is None else f"{score:.2f}"
            rows.append({"set": f"  {name}", size: str(items), "protocol": "sub-set", next(iter(texts)): text})
    main = {next(iter(task.scores)) for task in tasks}
    if len(main) == 1:  # a mean of accuracies and MAP would mean nothing
        scores = {task.name: task.main_score for task in tasks}
        means = [("Avg.", what, mean) for what, mean in averages(scores).items()]
        if not means and len(scores) > 1:
            means = [("mean", f"of {len(scores)} sets", sum(scores.values()) / len(scores))]
        metric = _METRICS.get(name := main.pop(), name)
        rows += [{"set": label, "protocol": what, metric: f"{mean:.2f}"} for label, what, mean in means]
    return pd.DataFrame(rows, dtype=object).fillna("")


def _record(task: TaskResult) -> dict[str, Any]:
    main = next(iter(task.scores))
    subsets = {name: {"pairs": count, main: score} for name, (count, score) in task.per_subset.items()}
    record = {"name": task.name, **task.counts, "protocol": task.protocol, "dataset": task.dataset}
    return {**record, **task.scores, **({"per_subset": subsets} if subsets else {})}


def _rows(tasks: Sequence[TaskResult]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for task in tasks:
        rows.append({"set": task.name, "subset": None, **task.counts, "protocol": task.protocol, **task.scores})
        whole = {"set": task.name, "protocol": task.protocol}
        main = next(iter(task.scores))
        rows += [{**whole, "subset": name, "pairs": n, main: score} for name, (n, score) in task.per_subset.items()]
    return pd.DataFrame(rows, dtype=object)
