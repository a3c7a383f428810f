"""``sentrep plot``: pictures for a paper, each written as PNG and as SVG."""

from __future__ import annotations

from typing import Literal

from sentrep.reports.text import printable


def curves(
    runs: list[str],
    *,
    metrics: list[str] | None = None,
    smooth: int = 1,
    output: str = "curves",
    overwrite: bool = False,
) -> None:
    """Draw training curves: metrics of one or several runs against the optimiser step.

    For example: sentrep plot curves runs/simcse-minilm

    Args:
        runs: folders of runs, or folders with runs below them.
        metrics: what to draw, for example train/loss val/sts; by default loss, development score, alignment and
            uniformity.
        smooth: points of a running mean of train/ metrics.
        output: the files to write, without .png and .svg.
        overwrite: replace pictures that are there already.
    """
    from sentrep.evaluation.plots import draw_curves, save_figure
    from sentrep.evaluation.plots.style import picture_files
    from sentrep.evaluation.runs import find_runs

    picture_files(output, overwrite=overwrite)
    figure = draw_curves({one.label: one.metrics for one in find_runs(runs)}, metrics, smooth)
    print(printable(" and ".join(map(str, save_figure(figure, output)))))


def sweep(
    runs: list[str],
    *,
    x: str,
    y: str = "val/sts",
    take: Literal["max", "min", "last"] = "max",
    output: str = "sweep",
    overwrite: bool = False,
) -> None:
    """Draw a score against a setting: mean ± standard deviation over runs that differ in nothing but their seeds.

    For example: sentrep plot sweep comparisons --x model.objectives.simcse.temperature

    Args:
        runs: folders of runs, or folders with runs below them, such as the output of sentrep compare.
        x: key of the setting, for example model.objectives.simcse.temperature.
        y: metric.
        take: which value of the metric is a run's score: max, min or last.
        output: the files to write, without .png and .svg.
        overwrite: replace pictures that are there already.
    """
    from sentrep.evaluation.plots import draw_sweep, save_figure, sweep_table
    from sentrep.evaluation.plots.style import picture_files
    from sentrep.evaluation.runs import find_runs

    picture_files(output, overwrite=overwrite)
    figure = draw_sweep(sweep_table(find_runs(runs), x, y, take), x, y)
    print(printable(" and ".join(map(str, save_figure(figure, output)))))
