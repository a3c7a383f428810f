"""The report of a finished run: a function of its metrics, its sets and the chosen checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation.history import MINUTES
from sentrep.evaluation.report import suite_table
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.selection import Selection
from sentrep.evaluation.sts import display_name
from sentrep.evaluation.table import show

UNTOUCHED = "untouched/"
"""Prefix of the scores of the start model with its folder's own settings, if the run replaces some of them."""
_TOY = "toy-"
_GEOMETRY = ("alignment", "uniformity")
"""Scores of the order of 1, by the last part of their names; they are printed with more digits than percentages."""
_TOY_NOTE = "This is a toy: its scores show that training works here, and mean nothing outside of it."


@dataclass(frozen=True)
class Line:
    """A row of the table."""

    metric: str
    name: str
    size: str = ""
    protocol: str = ""


def lines_of(data: Any) -> list[Line]:
    """A row for each score of a validation.

    Args:
        data: the run's data module.
    """
    sets: Sequence[ScoredPairs] = getattr(data, "val_sets", [])
    lines = []
    for one in sets:
        lines.append(Line(f"val/{one.name}", display_name(one.name), str(len(one)), one.protocol))
        lines += [Line(f"val/{one.name}/{name}", f"  {name}") for name in _GEOMETRY]
    if len(sets) > 1:
        lines.append(Line("val/sts", "mean"))
    return lines


def print_run(
    metrics: pd.DataFrame,
    lines: Sequence[Line],
    chosen: Selection,
    replaced: str | None,
    places: Mapping[str, str | Path | None],
) -> None:
    """Print the scores before and after a training, notes on them, and the places of the files.

    Args:
        metrics: of the run, see `MetricHistory.frame`; scores at step 0 are from before the training.
        lines: the rows of the table.
        chosen: the checkpoint.
        replaced: the replaced settings of the start model, in words.
        places: the written files, by name.
    """
    written = [f"{what:<10}  {_short(place) if place else 'none was written'}" for what, place in places.items()]
    notes = [
        chosen.reason(),
        *(_not_validated(metrics, chosen.step) if lines else []),
        *_beside_the_untouched(metrics, chosen.step, replaced),
        *_toy_notes(line.metric.removeprefix("val/") for line in lines),
        *written,
    ]
    show(_before_and_after(metrics, lines, chosen.step), notes)


def print_test(sets: Sequence[ScoredPairs], scores: Mapping[str, float], folder: str | None) -> None:
    """Print a row for each test set, and the mean.

    Args:
        sets: the scored sets.
        scores: by name.
        folder: of the loggers' files; None without loggers.
    """
    tasks = [
        TaskResult(one.name, one.protocol, "test", {"pairs": len(one)}, {"spearman": scores[one.name]}, "")
        for one in sets
    ]
    log = [] if folder is None else [f"log         {folder}"]
    show(suite_table(tasks), [*_toy_notes(one.name for one in sets), *log])


def _before_and_after(metrics: pd.DataFrame, lines: Sequence[Line], step: int) -> pd.DataFrame:
    rows = []
    for line in lines:
        before, after = _before(metrics, line.metric), _at(metrics, line.metric, step)
        digits = 4 if line.metric.rpartition("/")[2] in _GEOMETRY else 2
        change = "—" if pd.isna(after - before) else f"{after - before:+.{digits}f}"
        rows.append([line.name, line.size, line.protocol, _score(before, digits), _score(after, digits), change])
    columns = ["set", "pairs", "protocol", "before", f"step {step}", "change"]
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _at(metrics: pd.DataFrame, metric: str, step: int) -> float:
    """The value of a metric at a step, or NaN."""
    return float(metrics[metric].get(step, np.nan)) if metric in metrics else np.nan


def _before(metrics: pd.DataFrame, metric: str) -> float:
    """The score of the untouched model, with its folder's own settings if the run replaces some of them."""
    own = _at(metrics, metric.replace("val/", UNTOUCHED, 1), 0)
    return _at(metrics, metric, 0) if np.isnan(own) else own


def _values(metrics: pd.DataFrame, metric: str | None) -> pd.Series:
    return metrics[metric].dropna() if metric in metrics else pd.Series(dtype=float)


def _not_validated(metrics: pd.DataFrame, step: int) -> list[str]:
    """The reason if the step has no scores."""
    steps = _values(metrics, MINUTES).index
    if step in steps:
        return []
    ended = "the training ended before its first validation"
    why = f"the last validation was at step {steps[-1]}" if len(steps) else ended
    return [f"Step {step} has no scores: {why}; set trainer.val_check_interval to fewer batches."]


def _beside_the_untouched(metrics: pd.DataFrame, step: int, replaced: str | None) -> list[str]:
    """The replaced settings of the start model, and a warning if the result is worse than that model."""
    before, after = _before(metrics, "val/sts"), _at(metrics, "val/sts", step)
    if np.isnan(after - before):
        return []
    lines = []
    if replaced is not None:
        lines.append(
            f"Before is the untouched model with its own settings. This run replaced {replaced}, and so began at "
            f"{_at(metrics, 'val/sts', 0):.2f}."
        )
    if after < before:
        lines.append(
            f"BELOW THE UNTOUCHED MODEL: {after:.2f} after training, {before:.2f} before. Use the untouched model for "
            "these sets."
        )
    return lines


def _toy_notes(names: Iterable[str]) -> list[str]:
    return [_TOY_NOTE] if any(name.startswith(_TOY) for name in names) else []


def _score(score: float, digits: int = 2) -> str:
    return "—" if np.isnan(score) else f"{score:.{digits}f}"


def _short(place: str | Path) -> str:
    """The place relative to the current folder, if it lies below this folder."""
    relative = os.path.relpath(place)
    return str(place) if relative.startswith("..") else relative
