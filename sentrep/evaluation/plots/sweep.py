"""A score against a setting: mean and standard deviation over the seeds, a line per recipe."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd
from matplotlib.figure import Figure

from sentrep.config import flat
from sentrep.errors import InputError
from sentrep.evaluation.plots.style import legend_below, looks, metric_label, new_figure, styled
from sentrep.evaluation.runs import RunFolder, version_of
from sentrep.reports.text import printable

logger = logging.getLogger("sentrep")

Take = Literal["max", "min", "last"]


def sweep_table(runs: Sequence[RunFolder], x: str, y: str, take: Take = "max") -> pd.DataFrame:
    """A row for each run's score after training: its ``line``, ``x``, ``seed`` and ``score``.

    Runs with the same settings, apart from ``x`` and the seeds, belong to one line. Of runs with the same settings and
    seeds the newest version counts. Lines of one recipe are named by the settings that differ. A warning lists the runs
    without a score, which were killed or were too short for a validation.

    Args:
        runs: the runs.
        x: dotted key of a setting.
        y: metric.
        take: which value of the metric is a run's score: the greatest, the least or the last.

    Raises:
        InputError: a run has no such setting, or no run has such a metric.
    """
    scores: dict[RunFolder, float] = {}
    problems = []
    for run in sorted(runs, key=lambda run: version_of(run.path)):
        try:
            scores[run] = _trained_score(run, y, take)
        except InputError as error:
            problems.append(str(error))
    if not scores:
        raise InputError(problems[0])
    if problems:
        logger.warning("%d of %d runs are left out: %s", len(problems), len(runs), "; ".join(problems))
    newest = list(scores)
    settings = [run.settings_but(x) for run in newest]
    keys = [_written(own) for own in settings]
    first = dict(zip(reversed(keys), reversed(newest), strict=True))  # the first run of a line names it
    table = pd.DataFrame(
        {
            "line": _told_apart([first[key].without_seed for key in keys], settings),
            "x": _places([run.setting(x) for run in newest]),
            "seed": [_written(run.seeds) for run in newest],
            "score": list(scores.values()),
        }
    )
    return table.drop_duplicates(["line", "x", "seed"], keep="last", ignore_index=True)


def _trained_score(run: RunFolder, metric: str, take: Take) -> float:
    values = run.course(metric).loc[1:]  # step 0 is the model before training
    if values.empty:
        raise InputError(f"{run.path}: no {metric} of a trained model; was it too short for a validation?")
    return float(values.iloc[-1] if take == "last" else values.agg(take))


def _told_apart(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names; equal names are followed by the settings in which they differ."""
    told = []
    for name, own in zip(names, settings, strict=True):
        same = [other for label, other in zip(names, settings, strict=True) if label == name]
        keys = dict.fromkeys(key for other in same for key in other)
        apart = [key for key in keys if len({_written(other.get(key)) for other in same}) > 1]
        short = [key.rpartition(".")[2] for key in apart]
        shown = (last if short.count(last) == 1 else key for key, last in zip(apart, short, strict=True))
        said = [f"{key} {_words(own.get(full))}" for key, full in zip(shown, apart, strict=True)]
        told.append(", ".join(filter(None, [name, *said])))
    return told


def _places(values: Sequence[Any]) -> list[Any]:
    """The values on the axis: numbers as they are, other values by words that tell them apart."""
    words = _told_apart([_words(value) for value in values], [flat(value) for value in values])
    numbers = (isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [value if number else word for value, word, number in zip(values, words, numbers, strict=True)]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def draw_sweep(table: pd.DataFrame, x: str, y: str) -> Figure:
    """Draw mean ± standard deviation over the seeds, a line for each ``line``.

    The axis is logarithmic if all values are positive and the greatest is at least ten times the least. Values that are
    not numbers are drawn side by side.

    Args:
        table: of `sweep_table`.
        x: name of the setting, for the axis.
        y: name of the metric.
    """
    numbers = pd.api.types.is_numeric_dtype(table["x"])
    values = sorted(table["x"].unique()) if numbers else list(table["x"].unique())
    places = {value: value if numbers else position for position, value in enumerate(values)}
    lines = list(table["line"].unique())
    with styled():
        figure = new_figure(2.2 + 0.15 * math.ceil(len(lines) / 2))
        axis = figure.add_subplot()
        for line, look in looks(lines).items():
            seeds = table[table["line"] == line].groupby("x", sort=numbers)["score"].agg(["mean", "std"]).fillna(0)
            axis.errorbar(
                seeds.index.map(places),
                seeds["mean"],
                yerr=seeds["std"],
                **look,
                markersize=3.5,
                capsize=2,
                elinewidth=0.8,
                label=line if len(lines) > 1 else None,
            )
        if numbers and min(values) > 0 and max(values) >= 10 * min(values):
            axis.set_xscale("log")
            axis.minorticks_off()
        axis.set_xticks(list(places.values()), [f"{value:g}" if numbers else printable(value) for value in values])
        axis.margins(0.06)
        axis.set_xlabel(x.removeprefix("model.").replace("init_args.", ""))
        axis.set_ylabel(metric_label(y))
        counts = sorted(set(table.groupby(["line", "x"])["score"].size()))
        several = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else counts[0]
        axis.set_title("one seed each" if counts == [1] else f"mean ± sd of {several} seeds", loc="left")
        legend_below(figure)
    return figure


def _words(value: Any) -> str:
    if isinstance(value, dict) and "class_path" in value:
        return str(value["class_path"]).rsplit(".", 1)[-1]
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
