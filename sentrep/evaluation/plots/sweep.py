"""A score against a setting: mean and standard deviation over the seeds, a line per recipe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from sentrep.evaluation.plots.style import legend_below, looks, metric_label, new_figure, styled
from sentrep.evaluation.runs import RunFolder, flat, version_of
from sentrep.reports.text import printable

Take = Literal["max", "min", "last"]


@dataclass(frozen=True)
class Series:
    """Runs that differ in one setting and in their seeds alone."""

    label: str
    xs: list[Any]
    """The setting's values, numbers rising, each once."""
    scores: list[list[float]]
    """For each value, the score of every seed."""

    @property
    def means(self) -> list[float]:
        """Over the seeds."""
        return [float(np.mean(scores)) for scores in self.scores]

    @property
    def deviations(self) -> list[float]:
        """Standard deviation over the seeds (n − 1); 0 where there is one seed only."""
        return [float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0 for scores in self.scores]


def sweep_series(runs: Sequence[RunFolder], x: str, y: str, take: Take = "max") -> list[Series]:
    """Sort runs into series: those whose settings are the same but for ``x`` and the seeds.

    Of runs with the same settings and seeds the newest version counts. Series of one recipe are named by what differs.

    Args:
        runs: the runs.
        x: dotted key of a setting.
        y: metric.
        take: which value of the metric is a run's score: the greatest, the least or the last.

    Raises:
        InputError: a run has no such setting or metric.
    """
    newest = sorted(runs, key=lambda run: version_of(run.path))
    settings = [run.settings_but(x) for run in newest]
    places = _places([run.setting(x) for run in newest])
    series: dict[str, dict[Any, dict[str, float]]] = {}
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    for run, own, place in zip(newest, settings, places, strict=True):
        values = [value for _, value in run.course(y)]
        score = values[-1] if take == "last" else max(values) if take == "max" else min(values)
        key = _written(own)
        first.setdefault(key, (run.without_seed, own))
        series.setdefault(key, {}).setdefault(place, {})[_written(run.seeds)] = score  # of a seed the newest run
    labels = _told_apart(*zip(*first.values(), strict=True))
    return [_series(label, points) for label, points in zip(labels, series.values(), strict=True)]


def _told_apart(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names; where several are the same, with the settings in which these differ."""
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
    """Where values stand on the axis: numbers as they are, others by words that tell them apart."""
    words = _told_apart([_words(value) for value in values], [flat(value) for value in values])
    numbers = (isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return [value if number else word for value, word, number in zip(values, words, numbers, strict=True)]


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def draw_sweep(series: Sequence[Series], x: str, y: str) -> Figure:
    """Draw mean ± standard deviation of every series.

    The axis is logarithmic where all values are positive and the greatest is at least ten times the least; values that
    are not numbers stand side by side.

    Args:
        series: of `sweep_series`.
        x: name of the setting, for the axis.
        y: name of the metric.
    """
    values = list(dict.fromkeys(value for one in series for value in one.xs))
    numbers = all(isinstance(value, int | float) for value in values)
    places = {value: value if numbers else position for position, value in enumerate(values)}
    with styled():
        figure = new_figure(2.2 + 0.15 * math.ceil(len(series) / 2))
        axis = figure.add_subplot()
        for one, look in zip(series, looks([str(number) for number in range(len(series))]).values(), strict=True):
            axis.errorbar(
                [places[value] for value in one.xs],
                one.means,
                yerr=one.deviations,
                **look,
                markersize=3.5,
                capsize=2,
                elinewidth=0.8,
                label=one.label if len(series) > 1 else None,
            )
        if not numbers:
            axis.set_xticks(list(places.values()), [printable(str(value)) for value in places])
        elif min(values) > 0 and max(values) >= 10 * min(values):
            axis.set_xscale("log")
            axis.set_xticks(values, [f"{value:g}" for value in values])
            axis.minorticks_off()
        else:
            axis.set_xticks(values, [f"{value:g}" for value in values])
        axis.margins(0.06)
        axis.set_xlabel(x.removeprefix("model.").replace("init_args.", ""))
        axis.set_ylabel(metric_label(y))
        axis.set_title(_caption(series), loc="left")
        legend_below(figure)
    return figure


def _caption(series: Sequence[Series]) -> str:
    seeds = sorted({len(scores) for one in series for scores in one.scores})
    if seeds == [1]:
        return "one seed each"
    return f"mean ± sd of {seeds[0]}{f' to {seeds[-1]}' if len(seeds) > 1 else ''} seeds"


def _series(label: str, points: Mapping[Any, Mapping[str, float]]) -> Series:
    numbers = all(not isinstance(place, str) for place in points)
    places = sorted(points) if numbers else list(points)
    return Series(label, places, [list(points[place].values()) for place in places])


def _words(value: Any) -> str:
    if isinstance(value, dict) and "class_path" in value:
        return str(value["class_path"]).rsplit(".", 1)[-1]
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
