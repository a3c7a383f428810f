"""A score against a setting: mean and standard deviation over the seeds, a line per recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from sentrep.evaluation.plots.style import legend_below, looks, metric_label, new_figure, styled
from sentrep.evaluation.runs import RunFolder
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

    Args:
        runs: the runs.
        x: dotted key of a setting.
        y: metric.
        take: which value of the metric is a run's score: the greatest, the least or the last.

    Raises:
        InputError: a run has no such setting or metric.
    """
    series: dict[str, dict[Any, list[float]]] = {}
    labels: dict[str, str] = {}
    for run in runs:
        key, value = run.settings_but(x), run.setting(x)
        place = value if isinstance(value, int | float) and not isinstance(value, bool) else _words(value)
        values = [value for _, value in run.course(y)]
        score = values[-1] if take == "last" else max(values) if take == "max" else min(values)
        series.setdefault(key, {}).setdefault(place, []).append(score)
        labels.setdefault(key, run.without_seed)
    return [_series(labels[key], points) for key, points in series.items()]


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
        for one, look in zip(series, looks([one.label for one in series]).values(), strict=True):
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


def _series(label: str, points: dict[Any, list[float]]) -> Series:
    numbers = all(not isinstance(place, str) for place in points)
    places = sorted(points) if numbers else list(points)
    return Series(label, places, [points[place] for place in places])


def _words(value: Any) -> str:
    if isinstance(value, dict) and "class_path" in value:
        return str(value["class_path"]).rsplit(".", 1)[-1]
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
