"""Results of an evaluation: a table on the terminal, and JSON with everything."""

from __future__ import annotations

import dataclasses
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
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import SENTEVAL_SETS, display_name
from sentrep.evaluation.table import show
from sentrep.io.files import write_text
from sentrep.io.paths import writing
from sentrep.version import __version__

_RECORDED = ("torch", "transformers", "tokenizers", "scipy", "scikit-learn")
_AVERAGES = (
    ("the seven SentEval sets", SENTEVAL_SETS),
    ("MTEB: SICK-R with all pairs", (*SENTEVAL_SETS[:-1], "sickr-all")),
    ("the seven SentEval tasks", TRANSFER_NAMES),
)
"""The sets of each mean that papers print as "Avg."."""
_METRICS = {"spearman": "Spearman", "f1": "F1"}


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

    @classmethod
    def of(
        cls, encoder: SentenceEncoder, model: str, results: Sequence[TaskResult], seconds: float, **more: Any
    ) -> Evaluation:
        """Describe ``encoder``, loaded from ``model``, and its scores; ``more`` are fields of the class."""
        versions = {"sentrep": __version__, **{name: importlib.metadata.version(name) for name in _RECORDED}}
        settings = (fingerprint(encoder), encoder.pooling, encoder.prompt, encoder.max_seq_length)
        return cls(model, *settings, versions, seconds, list(results), **more)

    def print(self, console: Console | None = None) -> None:
        """Print a line per set, and the means.

        Args:
            console: the terminal; None for standard output.
        """
        show(suite_table(self.results), console=console)

    def write(self, path: str | Path) -> None:
        """Write the fields, and the `averages` of the sets, as JSON.

        Raises:
            InputError: for a place that cannot be written.
        """
        means = averages({task.name: task.main_score for task in self.results})
        with writing(path):
            write_text(path, json.dumps({**dataclasses.asdict(self), "averages": means}, indent=2) + "\n")


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


def suite_table(tasks: Sequence[TaskResult]) -> pd.DataFrame:
    """A row for each set, then their `averages`, or else the mean of several sets; all cells are texts."""
    size = " / ".join(dict.fromkeys(list(task.counts)[-1] for task in tasks if task.counts)) or "items"
    rows = []
    for task in tasks:
        texts = {_METRICS.get(name, name): f"{score:.2f}" for name, score in task.scores.items()}
        count = str(["", *task.counts.values()][-1])
        rows.append({"set": display_name(task.name), size: count, "protocol": task.protocol, **texts})
    main = {next(iter(task.scores)) for task in tasks}
    if len(main) == 1:  # a mean of accuracies and MAP would mean nothing
        scores = {task.name: task.main_score for task in tasks}
        means = [("Avg.", what, mean) for what, mean in averages(scores).items()]
        if not means and len(scores) > 1:
            means = [("mean", f"of {len(scores)} sets", sum(scores.values()) / len(scores))]
        metric = _METRICS.get(name := main.pop(), name)
        rows += [{"set": label, "protocol": what, metric: f"{mean:.2f}"} for label, what, mean in means]
    return pd.DataFrame(rows, dtype=object).fillna("")
