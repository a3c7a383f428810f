"""``sentrep plot``: pictures for a paper, each written as PNG and as SVG."""

from __future__ import annotations

from matplotlib.figure import Figure

from sentrep.evaluation.plots import draw_curves, draw_sweep, save_figure, sweep_table
from sentrep.evaluation.plots.style import picture_files
from sentrep.evaluation.plots.sweep import Take
from sentrep.evaluation.runs import find_runs
from sentrep.reports.text import printable


def curves(
    runs: list[str],
    *,
    metrics: list[str] | None = None,
    smooth: int = 1,
    output: str = "curves",
    overwrite: bool = False,
) -> None:
    """Training curves: metrics of one or several runs against the optimiser step.

    Args:
        runs: folders of runs, or folders with runs below them.
        metrics: what to draw, for example train/loss val/sts; by default loss, development score, alignment and
            uniformity.
        smooth: points of a running mean of train/ metrics.
        output: the files to write, without .png and .svg.
        overwrite: replace pictures that are there already.
    """
    picture_files(output, overwrite=overwrite)
    found = find_runs(runs)
    _save(draw_curves({one.label: one.courses for one in found}, metrics, smooth), output)


def sweep(
    runs: list[str], *, x: str, y: str = "val/sts", take: Take = "max", output: str = "sweep", overwrite: bool = False
) -> None:
    """A score against a setting: mean ± standard deviation over runs that differ in nothing but their seeds.

    Args:
        runs: folders of runs, or folders with runs below them, such as the output of sentrep compare.
        x: key of the setting, for example model.objectives.simcse.temperature.
        y: metric.
        take: which value of the metric is a run's score: max, min or last.
        output: the files to write, without .png and .svg.
        overwrite: replace pictures that are there already.
    """
    picture_files(output, overwrite=overwrite)
    _save(draw_sweep(sweep_table(find_runs(runs), x, y, take), x, y), output)


def _save(figure: Figure, output: str) -> None:
    print(printable(" and ".join(map(str, save_figure(figure, output)))))
