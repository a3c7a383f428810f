"""The picture of an adaptation: its score while it was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from sentrep.evaluation.plots.style import BLUE, COLOURS, GREY, LINES, legend_below, new_figure, styled

_HEIGHT = 2.2
_TASKS = [(colour, line) for colour, line in zip(COLOURS[1:6], (*LINES[1:], LINES[1]), strict=True)]


def draw_curve(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Draw the proxy (thick) and its tasks over the steps, with the untouched model as a level line.

    Args:
        rows: each with ``step`` and some of ``proxy`` (in at least one) and ``proxy/<task>``; step 0 is untouched.
    """
    tasks = dict.fromkeys(name for row in rows for name in row if name.startswith("proxy/"))
    with styled():
        figure = new_figure(_HEIGHT)
        axis = figure.add_subplot()
        for task, (colour, line) in zip(tasks if len(tasks) > 1 else (), _TASKS, strict=False):
            steps, values = _columns(rows, task)
            axis.plot(steps, values, color=colour, linestyle=line, linewidth=0.8, label=task.removeprefix("proxy/"))
        steps, values = _columns(rows, "proxy")
        if steps[0] == 0:
            axis.axhline(values[0], color=GREY, linestyle="--", label="untouched model")
        axis.plot(steps, values, color=BLUE, marker="o", markersize=3, linewidth=1.8, label="proxy")
        axis.set_xlabel("optimiser step")
        axis.set_ylabel("score × 100")
        legend_below(figure)
    return figure


def _columns(rows: Sequence[Mapping[str, float]], name: str) -> tuple[list[float], list[float]]:
    there = [row for row in rows if name in row]
    return [row["step"] for row in there], [row[name] for row in there]
