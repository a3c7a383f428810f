"""How well do criteria without labels choose a checkpoint? Rank correlation with a development set, over finished runs.

    sentrep fit -c RECIPE.yaml --data.held_out 1000 --seed_everything 1      (and more of them)
    python benchmarks/label_free_selection.py runs/*/version_*

Trains nothing: reads ``metrics.csv`` of every folder (`sentrep fit` writes it; Lightning's CSVLogger does too). Of each
criterion it prints, with a 95 % bootstrap interval:

- ``within runs``: Spearman's ρ with the development score over a run's validations, mean over the runs. The bootstrap
  draws runs; for a single run, its validations, which are not independent: take that interval as too narrow;
- ``across runs``: ρ over the runs' last validations. The bootstrap draws runs;
- ``points lost``: the development score of a run's best validation, less that of the one that the criterion takes for
  the best, mean over the runs. 0 is as good as labels. ``last step`` is what it costs to choose nothing at all.

ρ is signed so that 1 is a perfect criterion, whether more of it or less is better. Where ρ does not exist (all values
equal, fewer than three) a dash stands. The value before training (step 0) is left out.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import NDArray
from rich.console import Console

from sentrep.evaluation.label_free import CRITERIA
from sentrep.reports.frames import markdown_table, screen_table

Array = NDArray[np.float64]
Run = dict[str, Array]
"""By metric, its values at the validations of a run; higher is better."""

_FEWEST = 3
_LAST = "last step"
_COLUMNS = ("criterion", "runs", "within runs", "across runs", "points lost")


def main() -> None:
    """Read, compute, print."""
    options = _options()
    runs = [read_run(folder / "metrics.csv", options.dev) for folder in options.runs]
    shown = pd.DataFrame(table(runs, options.dev, options.resamples), columns=_COLUMNS)
    if options.markdown:
        print(markdown_table(shown))
    else:
        Console().print(screen_table(shown))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--dev", default="val/stsb-dev", help="metric with labels to agree with")
    parser.add_argument("--resamples", type=int, default=2000, help="of the bootstrap")
    parser.add_argument("--markdown", action="store_true", help="print a table for a document")
    return parser.parse_args()


def read_run(path: Path, dev: str) -> Run:
    """The development score and the criteria at every validation of a run after step 0.

    Raises:
        SystemExit: the file is not there, or has no development score or no criterion.
    """
    if not path.is_file():
        raise SystemExit(f"{path} does not exist; name folders of finished runs")
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.get(dev)]
    rows = [row for row in rows if float(row["step"]) > 0]
    names = [name for name in CRITERIA if rows and all(row.get(f"val/{name}") for row in rows)]
    if not names:
        raise SystemExit(f"{path}: no validation with {dev} and a criterion without labels; train with data.held_out")
    signs = {f"val/{name}": 1.0 if CRITERIA[name] == "max" else -1.0 for name in names}
    return {
        metric: sign * np.array([float(row[metric]) for row in rows]) for metric, sign in {dev: 1.0, **signs}.items()
    }


def table(runs: Sequence[Run], dev: str, resamples: int) -> list[list[str]]:
    """A row of cells per criterion."""
    rows = []
    for name in CRITERIA:
        criterion = f"val/{name}"
        have = [run for run in runs if criterion in run]
        if have:
            within = [spearman(run[criterion], run[dev]) for run in have]
            if len(have) > 1:
                inside = _interval(np.array(within), np.nanmean, resamples)
            else:
                inside = _interval(np.stack([have[0][criterion], have[0][dev]], axis=1), _columns, resamples)
            last = np.array([[run[criterion][-1], run[dev][-1]] for run in have])
            lost = np.array([points_lost(run[criterion], run[dev]) for run in have])
            across = _interval(last, _columns, resamples)
            rows.append([name, str(len(have)), inside, across, _interval(lost, np.mean, resamples)])
    lost = np.array([run[dev].max() - run[dev][-1] for run in runs])
    return [*rows, [_LAST, str(len(runs)), "", "", _interval(lost, np.mean, resamples)]]


def spearman(x: Array, y: Array) -> float:
    """ρ; NaN where there is none."""
    if len(x) < _FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(scipy.stats.spearmanr(x, y).statistic)


def points_lost(criterion: Array, dev: Array) -> float:
    """The best development score less that of the validation with the highest criterion, the first of equal ones."""
    return float(dev.max() - dev[criterion.argmax()])


def _columns(pairs: Array) -> float:
    return spearman(pairs[:, 0], pairs[:, 1])


def _interval(values: Array, statistic: Callable[[Array], float], resamples: int) -> str:
    """The statistic of the rows, with the 2.5th and 97.5th percentile of its bootstrap."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing, which are shown as a dash
        point = float(statistic(values))
        draws = [statistic(values[rng.integers(len(values), size=len(values))]) for _ in range(resamples)]
        low, high = np.nanquantile(draws, [0.025, 0.975])
    if not np.isfinite(point):
        return "—"
    return f"{point:.2f} [{low:.2f}, {high:.2f}]" if len(values) > 1 else f"{point:.2f}"


if __name__ == "__main__":
    main()
