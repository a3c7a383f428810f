"""The plane of alignment and uniformity (Wang & Isola 2020): where runs end, or the way they take."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from sentrep.errors import InputError
from sentrep.evaluation.history import Course
from sentrep.evaluation.plots.style import legend_below, looks, new_figure, styled


def draw_plane(runs: Mapping[str, Mapping[str, Course]], *, path: bool = True, prefix: str = "train/") -> Figure:
    """Draw uniformity (x) and alignment (y) of every run; both are better the lower.

    Args:
        runs: by label, the courses of a run by metric.
        path: draw the whole course, its start open and its end filled; otherwise the end alone.
        prefix: in front of ``alignment`` and ``uniformity`` in the names of the metrics.

    Raises:
        InputError: a run has no step with both metrics.
    """
    with styled():
        figure = new_figure(2.6)
        axis = figure.add_subplot()
        for (label, courses), look in zip(runs.items(), looks(list(runs)).values(), strict=True):
            x, y = _points(label, courses, prefix)
            if path and len(x) > 1:
                axis.plot(x, y, color=look["color"], linestyle=look["linestyle"], linewidth=0.8, alpha=0.8)
                axis.plot(x[0], y[0], look["marker"], color=look["color"], markerfacecolor="white", markersize=4)
            axis.plot(x[-1], y[-1], look["marker"], color=look["color"], markersize=5, linestyle="none", label=label)
        axis.set_xlabel("uniformity (lower is better)")
        axis.set_ylabel("alignment (lower is better)")
        axis.margins(0.08)
        legend_below(figure)
    return figure


def _points(label: str, courses: Mapping[str, Course], prefix: str) -> tuple[list[float], list[float]]:
    uniform, aligned = (dict(courses.get(f"{prefix}{name}", [])) for name in ("uniformity", "alignment"))
    steps = sorted(set(uniform) & set(aligned))
    if not steps:
        raise InputError(
            f"{label}: no step with {prefix}alignment and {prefix}uniformity; what was logged has other names"
        )
    return [uniform[step] for step in steps], [aligned[step] for step in steps]
