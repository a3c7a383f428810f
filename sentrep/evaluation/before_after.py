"""The report of a finished run: a function of its metrics, its sets and the chosen checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation.report import suite_table
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.selection import Selection
from sentrep.evaluation.sts import display_name
from sentrep.evaluation.table import show

UNTOUCHED = "untouched/"
"""Prefix of the scores of the start model with its folder's own settings, if the run replaces some of them."""
_GEOMETRY = ("alignment", "uniformity")
"""Scores of the order of 1; they are printed with more digits than percentages."""
_TOY_NOTE = "This is a toy: its scores show that training works here, and mean nothing outside of it."


def print_run(
    metrics: pd.DataFrame,
    sets: Sequence[ScoredPairs],
    chosen: Selection,
    replaced: str | None,
    places: Mapping[str, str | Path | None],
) -> None:
    """Print the scores before and after a training, notes on them, and the places of the files.

    Args:
        metrics: of the run, see `MetricHistory.frame`; scores at step 0 are from before the training.
        sets: the development sets.
        chosen: the checkpoint.
        replaced: the replaced settings of the start model, in words.
        places: the written files, by name.
    """
    began, before, after = _scores(metrics, 0), _scores_before(metrics), _scores(metrics, chosen.step)
    notes = [chosen.reason()]
    steps = [step for step in metrics.filter(regex="^val/").dropna(how="all").index if step > 0]
    if sets and chosen.step not in steps:
        ended = f"the last validation was at step {steps[-1]}" if steps else "it ended before the first validation"
        notes.append(f"Step {chosen.step} has no scores: {ended}; set trainer.val_check_interval to fewer batches.")
    if {"val/sts"} <= before.keys() & after.keys():
        notes += _beside_the_untouched(before["val/sts"], after["val/sts"], replaced, began["val/sts"])
    written = [f"{what:<10}  {_short(place) if place else 'none was written'}" for what, place in places.items()]
    show(before_and_after(metrics, sets, chosen.step), [*notes, *_toy_notes(sets), *written])


def print_test(sets: Sequence[ScoredPairs], scores: Mapping[str, float], folder: str | None) -> None:
    """Print a row for each test set, and the mean.

    Args:
        sets: the scored sets.
        scores: by name.
        folder: of the loggers' files; None without loggers.
    """
    tasks = [
        TaskResult(one.name, one.protocol, {"pairs": len(one)}, {"spearman": scores[one.name]}, "") for one in sets
    ]
    log = [] if folder is None else [f"log         {folder}"]
    show(suite_table(tasks), [*_toy_notes(sets), *log])


def _scores(metrics: pd.DataFrame, step: int) -> dict[str, float]:
    """The values of a step by metric."""
    return dict(metrics.loc[step].dropna()) if step in metrics.index else {}


def _scores_before(metrics: pd.DataFrame) -> dict[str, float]:
    """The scores before the training, of the start model with its folder's own settings."""
    began = _scores(metrics, 0)
    own = {name.replace(UNTOUCHED, "val/", 1): score for name, score in began.items() if name.startswith(UNTOUCHED)}
    return began | own


def before_and_after(metrics: pd.DataFrame, sets: Sequence[ScoredPairs], step: int) -> pd.DataFrame:
    """The table of the scores before the training and after a step; for the arguments see `print_run`."""
    before, after = _scores_before(metrics), _scores(metrics, step)
    rows = []
    for one in sets:
        rows.append((f"val/{one.name}", ".2f", [display_name(one.name), str(len(one)), one.protocol]))
        rows += [(f"val/{one.name}/{measure}", ".4f", [f"  {measure}", "", ""]) for measure in _GEOMETRY]
    rows += [("val/sts", ".2f", ["mean", "", ""])] if len(sets) > 1 else []
    lines = []
    for metric, form, words in rows:
        texts = [f"{scores[metric]:{form}}" if metric in scores else "—" for scores in (before, after)]
        both = metric in before and metric in after
        lines.append([*words, *texts, f"{after[metric] - before[metric]:+{form}}" if both else "—"])
    columns = ["set", "pairs", "protocol", "before", f"step {step}", "change"]
    return pd.DataFrame(lines, columns=columns, dtype=object)


def _beside_the_untouched(before: float, after: float, replaced: str | None, began: float) -> list[str]:
    """The replaced settings of the start model, and a warning if the result is worse than that model."""
    notes = []
    if replaced is not None:
        own = "Before is the untouched model with its own settings."
        notes.append(f"{own} This run replaced {replaced}, and so began at {began:.2f}.")
    if after < before:
        notes.append(
            f"BELOW THE UNTOUCHED MODEL: {after:.2f} after training, {before:.2f} before. Use the untouched model for "
            "these sets."
        )
    return notes


def _toy_notes(sets: Sequence[ScoredPairs]) -> list[str]:
    return [_TOY_NOTE] if any(one.name.startswith("toy-") for one in sets) else []


def _short(place: str | Path) -> str:
    """The place relative to the current folder, if it lies below this folder."""
    relative = os.path.relpath(place)
    return str(place) if relative.startswith("..") else relative
