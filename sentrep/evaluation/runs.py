"""Read the folder of a training run: settings and metrics."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from sentrep.config import flat
from sentrep.errors import InputError, did_you_mean
from sentrep.evaluation.history import METRICS, read_metrics
from sentrep.io.paths import not_there

_CONFIG = "config.yaml"
_SEEDS = ("seed_everything", "data.seed", "model.seed")
_PLACES = (
    "data.cache_dir",
    "data.reading.cache_dir",
    "trainer.logger",
    "trainer.default_root_dir",
    "ckpt_path",
)
"""Keys of places, in which runs of one recipe may differ, beside the seeds."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, as ``sentrep fit`` leaves it (``runs/NAME/version_0``)."""

    path: Path
    label: str
    """The part of the path that distinguishes the run from the others, for legends."""

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The resolved settings.

        Raises:
            InputError: there is no readable config.yaml.
        """
        try:
            content = yaml.safe_load((self.path / _CONFIG).read_text(encoding="utf-8"))
            if not isinstance(content, dict):
                raise ValueError(f"found {type(content).__name__}, where keys and values were expected")
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise InputError(f"{self.path}: no readable {_CONFIG}, which `sentrep fit` writes ({error})") from error
        return content

    @property
    def without_seed(self) -> str:
        """The label without the folders of seed and version, which runs under several seeds share; it may be empty."""
        parts = [part for part in self.label.split("/") if not part.startswith(("seed-", "version_"))]
        return "/".join(dict.fromkeys(parts))

    @functools.cached_property
    def metrics(self) -> pd.DataFrame:
        """A row for each step and a column for each metric, see `MetricHistory.frame`.

        Raises:
            InputError: there is no metrics.csv, or it is damaged.
        """
        if not (self.path / METRICS).is_file():
            raise InputError(f"{self.path}: no {METRICS}; train with the report on, or with Lightning's CSVLogger")
        return read_metrics(self.path / METRICS)

    def course(self, metric: str) -> pd.Series:
        """The values of one metric by step.

        Raises:
            InputError: the run has not logged it.
        """
        if metric not in self.metrics:
            hint = did_you_mean(metric, self.metrics) or f"; there are {', '.join(self.metrics)}"
            raise InputError(f"{self.path}: no metric {metric!r}{hint}")
        return self.metrics[metric].dropna()

    def setting(self, key: str) -> Any:
        """The value at a dotted key; ``init_args`` may be left out, as on the command line.

        Raises:
            InputError: there is no such key.
        """
        node: Any = self.config
        for name in key.replace(".init_args", "").split("."):
            inside = {**node, **(node.get("init_args") or {})} if isinstance(node, dict) else {}
            if name not in inside:
                hint = did_you_mean(name, inside) or (f"; there are {', '.join(inside)}" if inside else "")
                raise InputError(f"{self.path / _CONFIG}: no key {key!r}, because there is no {name!r}{hint}")
            node = inside[name]
        return node

    def settings_but(self, key: str) -> dict[str, Any]:
        """The settings by dotted key, without ``key``, seeds and places: equal for runs of one series."""
        left_out = tuple(f"{other.replace('.init_args', '')}." for other in (key, *_SEEDS, *_PLACES))
        return {leaf: value for leaf, value in flat(self.config).items() if not f"{leaf}.".startswith(left_out)}

    @property
    def seeds(self) -> dict[str, Any]:
        """The seeds, which distinguish runs with the same settings."""
        return {key: value for key, value in flat(self.config).items() if key in _SEEDS}


def find_runs(paths: Sequence[str | Path]) -> list[RunFolder]:
    """Find the runs in folders: each folder is a run or has runs below it (the output of ``sentrep compare``).

    Where a ``seed-*`` folder holds several versions, an interrupted run was resumed, and the newest version counts.

    Raises:
        InputError: a folder does not exist, or contains no run.
    """
    found: list[Path] = []
    if not paths:
        raise InputError("no runs given; name the folders of one or more runs")
    for path in map(Path, paths):
        if not path.is_dir():
            raise not_there(path, "folder of a run")
        below = [path] if _is_run(path) else _runs_below(path)
        if not below:
            raise InputError(f"{path}: no run in it; a run's folder has a {_CONFIG} or a {METRICS}")
        found += [run for run in below if run not in found]
    return [RunFolder(run, label) for run, label in zip(found, _labels(found), strict=True)]


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (_CONFIG, METRICS))


def _runs_below(folder: Path) -> list[Path]:
    runs = sorted({file.parent for file in folder.rglob("*") if file.name in (_CONFIG, METRICS)})
    newest: dict[Path, Path] = {}
    for run in runs:
        seed = next((parent for parent in run.parents if parent.name.startswith("seed-")), run)
        if seed not in newest or version_of(run) >= version_of(newest[seed]):
            newest[seed] = run
    return list(newest.values())


def version_of(run: Path) -> int:
    """The n of ``version_<n>``; −1 for a folder of another name."""
    number = run.name.removeprefix("version_")
    return int(number) if number != run.name and number.isdecimal() else -1


def _labels(paths: Sequence[Path]) -> list[str]:
    """The differing parts of the paths."""
    if len(paths) == 1:
        return ["/".join(paths[0].resolve().parts[-2:])]
    parts = [path.resolve().parts for path in paths]
    start, end = _shared(parts), _shared([part[::-1] for part in parts])
    return ["/".join(part[start : len(part) - end]) or part[-1] for part in parts]


def _shared(parts: Sequence[tuple[str, ...]]) -> int:
    """The number of first elements that all have in common."""
    return next((n for n, column in enumerate(zip(*parts, strict=False)) if len(set(column)) > 1), min(map(len, parts)))
