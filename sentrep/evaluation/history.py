"""The course of a run's metrics, kept without waiting for the device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from lightning.pytorch import Trainer
from torch import Tensor

from sentrep.io.files import atomic_write
from sentrep.io.paths import writing

METRICS = "metrics.csv"
"""Name of a run's courses in its folder; Lightning's CSVLogger calls them so, too."""

MINUTES = "minutes"
"""Its column for the time since training began, interruptions left out."""

Course = list[tuple[int, float]]
"""Values of one metric: (optimiser step, value), steps rising."""


class MetricHistory:
    """Metrics by name and optimiser step.

    Values arrive as tensors, on whatever device, and become numbers only when somebody reads them.

    Examples:
        >>> import torch
        >>> history = MetricHistory()
        >>> history.add(10, {"train/loss": torch.tensor(0.5)})
        >>> history.courses
        {'train/loss': [(10, 0.5)]}
    """

    def __init__(self) -> None:
        self._courses: dict[str, Course] = {}
        self._pending: list[tuple[int, dict[str, Tensor]]] = []

    def add(self, step: int, metrics: Mapping[str, Tensor]) -> None:
        """Keep the metrics of one step."""
        self._pending.append((step, {name: value.detach().clone() for name, value in metrics.items()}))

    @property
    def courses(self) -> dict[str, Course]:
        """Every metric's course."""
        for step, metrics in self._pending:
            for name, value in metrics.items():
                self._courses.setdefault(name, []).append((step, float(value)))
        self._pending.clear()
        return self._courses

    def state_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, which a checkpoint may hold."""
        return {name: [list(point) for point in course] for name, course in self.courses.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._pending.clear()
        self._courses = {name: [(int(step), float(value)) for step, value in course] for name, course in state.items()}


def write_metrics(path: Path, courses: Mapping[str, Course]) -> None:
    """Write ``metrics.csv``: a row per step, a column per metric, empty where the step has no value.

    Raises:
        InputError: for a place that cannot be written.
    """
    frame = pd.DataFrame({name: pd.Series(dict(course)) for name, course in courses.items()}).sort_index()
    with writing(path), atomic_write(path, "w", encoding="utf-8", newline="") as file:
        frame.to_csv(file, index_label="step", lineterminator="\n")


def is_log_step(trainer: Trainer, after: int) -> bool:
    """Whether the optimiser step just done is one at which `SentRepModule` logs, and lies behind step ``after``.

    With accumulated gradients several batches end at one step; ``after`` counts it once.
    """
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    step = trainer.global_step
    return every > 0 and step > after and step % every == 0
