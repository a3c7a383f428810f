"""What a training run has left in its folder: settings, metrics, histograms."""

from __future__ import annotations

import copy
import csv
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sentrep.errors import InputError, did_you_mean
from sentrep.evaluation.history import METRICS, Course
from sentrep.io.paths import not_there

_CONFIG = "config.yaml"
_EVENTS = "events.out.tfevents.*"
_SEEDS = ("seed_everything", "data.seed", "model.seed")
_PLACES = (
    "data.cache_dir",
    "data.reading.cache_dir",
    "trainer.logger",
    "trainer.default_root_dir",
    "ckpt_path",
)
"""Keys in which runs of one recipe may differ beside the seeds: where things lie."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, as ``sentrep fit`` leaves it (``runs/NAME/version_0``)."""

    path: Path
    label: str
    """What tells it from the other runs, for legends."""

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
        """The label of what runs under several seeds share: no seed's folder, no version; it may be empty."""
        parts = [part for part in self.label.split("/") if not part.startswith(("seed-", "version_"))]
        return "/".join(dict.fromkeys(parts))

    @functools.cached_property
    def courses(self) -> dict[str, Course]:
        """Every metric's course: of metrics.csv, else of TensorBoard's event files.

        Raises:
            InputError: there is neither.
        """
        if (self.path / METRICS).is_file():
            return _read_metrics(self.path / METRICS)
        if next(self.path.glob(_EVENTS), None) is not None:
            return _read_events(self.path)
        raise InputError(f"{self.path}: no {METRICS} and no TensorBoard events; train with the report or a logger on")

    def course(self, metric: str) -> Course:
        """The course of one metric.

        Raises:
            InputError: the run has not logged it.
        """
        if metric not in self.courses:
            hint = did_you_mean(metric, self.courses) or f"; there are {', '.join(self.courses)}"
            raise InputError(f"{self.path}: no metric {metric!r}{hint}")
        return self.courses[metric]

    def setting(self, key: str) -> Any:
        """The value at a dotted key; ``init_args`` may be left out, as on the command line.

        Raises:
            InputError: there is no such key.
        """
        parent, name = _descend(self.config, key, f"{self.path / _CONFIG}")
        return parent[name]

    def settings_but(self, key: str) -> dict[str, Any]:
        """The settings by dotted key, without one key and without the seeds: equal for runs of one series."""
        config = copy.deepcopy(self.config)
        for other in (key, *_SEEDS, *_PLACES):
            try:
                parent, name = _descend(config, other, "")
            except InputError:
                continue
            del parent[name]
        return flat(config)

    @property
    def seeds(self) -> dict[str, Any]:
        """What tells runs of the same settings apart."""
        return {key: value for key, value in flat(self.config).items() if key in _SEEDS}


def flat(tree: Any, above: str = "") -> dict[str, Any]:
    """The leaves of a configuration by dotted key, without ``init_args``; an empty mapping or list is a leaf."""
    if not isinstance(tree, dict) or not tree:
        return {above: tree}
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        leaves |= flat(value, above if name == "init_args" else f"{above}.{name}".lstrip("."))
    return leaves


def find_runs(paths: Sequence[str | Path]) -> list[RunFolder]:
    """The runs in some folders: each is a run, or has runs somewhere below it (``sentrep compare``'s output).

    Where a ``seed-*`` folder holds several versions, an interrupted run was resumed, and the newest version counts.

    Raises:
        InputError: a folder is not there, or has no run in it.
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
    return any((folder / name).is_file() for name in (_CONFIG, METRICS)) or any(folder.glob(_EVENTS))


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
    """The parts of the paths in which they differ."""
    if len(paths) == 1:
        return ["/".join(paths[0].resolve().parts[-2:])]
    parts = [path.resolve().parts for path in paths]
    start, end = _shared(parts), _shared([part[::-1] for part in parts])
    return ["/".join(part[start : len(part) - end]) or part[-1] for part in parts]


def _shared(parts: Sequence[tuple[str, ...]]) -> int:
    """How many first elements all have in common."""
    return next((n for n, column in enumerate(zip(*parts, strict=False)) if len(set(column)) > 1), min(map(len, parts)))


def _descend(tree: Mapping[str, Any], key: str, where: str) -> tuple[Any, str]:
    """The mapping that holds the last part of a dotted key, and that part."""
    *above, last = key.split(".")
    node: Any = tree
    for name in [*above, last]:
        if isinstance(node, dict) and name not in node and isinstance(node.get("init_args"), dict):
            node = node["init_args"]
        if not isinstance(node, dict) or name not in node:
            known = list(node) if isinstance(node, dict) else []
            hint = did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "")
            raise InputError(f"{where}: no key {key!r}, because there is no {name!r}{hint}")
        parent, node = node, node[name]
    return parent, last


def _read_metrics(file: Path) -> dict[str, Course]:
    """A column ``step`` and a column a metric, as `TrainingReport` and Lightning's CSVLogger write it.

    The logger's file has a column ``epoch`` as well, and its first step is 0.
    """
    courses: dict[str, Course] = {}
    for line, row in read_rows(file):
        try:
            step = int(row["step"]) + int("epoch" in row)
            for name, value in row.items():
                if name not in ("step", "epoch") and value:
                    courses.setdefault(name, []).append((step, float(value)))
        except (KeyError, ValueError) as error:
            raise InputError(f"{file}, line {line}: not a row of metrics ({error})") from None
    return {name: sorted(course) for name, course in courses.items()}


def read_rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells by name of every row of a csv file that a run has left.

    Raises:
        InputError: it is empty, not UTF-8 or damaged, a column stands twice, or a row has another number of cells.
    """
    names: list[str] = []
    line = 1
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            for cells in (reader := csv.reader(stream, strict=True)):
                line = reader.line_num
                if not names:
                    names = cells
                    if twice := [name for name in names if names.count(name) > 1]:
                        raise InputError(f"{file}: the column {twice[0]!r} stands there twice; remove one of the two")
                elif len(cells) != len(names):
                    raise InputError(f"{file}, line {line}: {len(cells)} cells where the header has {len(names)}")
                else:
                    yield line, dict(zip(names, cells, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}, line {line}: no csv file in UTF-8 ({error}); was it edited or cut off?") from error
    if not names:
        raise InputError(f"{file}: empty; was the run ended before it wrote anything?")


def _read_events(folder: Path) -> dict[str, Course]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    names = [name for name in events.Tags()["scalars"] if name not in ("epoch", "hp_metric")]
    # Lightning tells its loggers the number of steps before this one
    return {name: [(event.step + 1, event.value) for event in events.Scalars(name)] for name in names}
