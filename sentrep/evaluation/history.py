"""The metrics of a run by step, kept without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from lightning.pytorch import Trainer
from torch import Tensor

from sentrep.io.files import atomic_write
from sentrep.io.paths import writing

METRICS = "metrics.csv"
"""Name of the file of a run's metrics; Lightning's CSVLogger uses it, too."""


class MetricHistory:
    """Metrics by name and optimiser step.

    Values arrive as tensors on any device, and become numbers when they are read.

    Examples:
        >>> import torch
        >>> history = MetricHistory()
        >>> history.add(10, {"train/loss": torch.tensor(0.5)})
        >>> history.frame["train/loss"].to_dict()
        {10: 0.5}
    """

    def __init__(self) -> None:
        self._values: dict[str, dict[int, float]] = {}
        self._pending: list[tuple[int, dict[str, Tensor]]] = []

    def add(self, step: int, metrics: Mapping[str, Tensor]) -> None:
        """Keep the metrics of one step."""
        self._pending.append((step, {name: value.detach().clone() for name, value in metrics.items()}))

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each step, rising, and a column for each metric, missing where the step has no value."""
        return pd.DataFrame(self._read()).rename_axis("step").sort_index()

    def _read(self) -> dict[str, dict[int, float]]:
        for step, metrics in self._pending:
            for name, value in metrics.items():
                self._values.setdefault(name, {})[step] = float(value)
        self._pending.clear()
        return self._values

    def state_dict(self) -> dict[str, Any]:
        """The history as plain lists and numbers, which a checkpoint may hold."""
        return {name: [list(point) for point in values.items()] for name, values in self._read().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self._pending.clear()
        self._values = {name: {int(step): float(value) for step, value in course} for name, course in state.items()}


def write_metrics(path: Path, frame: pd.DataFrame) -> None:
    """Write ``metrics.csv``: a row per step, a column per metric, empty where the step has no value.

    Raises:
        InputError: for a place that cannot be written.
    """
    with writing(path), atomic_write(path, "w", encoding="utf-8", newline="") as file:
        frame.to_csv(file, lineterminator="\n")


def dose(path: Path) -> float | None:
    """The share of the softmax that drawn negatives had, mean over the log steps; None if no sampler logged one.

    Of one objective it is the sum over its samplers; of several objectives the largest counts.

    Args:
        path: of ``metrics.csv``.
    """
    shares: dict[str, float] = {}
    for name, values in pd.read_csv(path, index_col=False).items():
        objective, found, _ = str(name).rpartition("/dose/")
        if found and objective.startswith("train/"):
            shares[objective] = shares.get(objective, 0.0) + float(values.mean())
    return max(shares.values(), default=None)


def of_total_steps(trainer: Trainer) -> str:
    """The words after the number of a step, such as ``" of 60"``; empty if the total is unknown."""
    return "" if math.isinf(total := trainer.estimated_stepping_batches) else f" of {total:.0f}"


def is_log_step(trainer: Trainer, after: int) -> bool:
    """Whether `SentRepModule` logs at the current optimiser step, and the step is later than ``after``.

    With accumulated gradients several batches end at one step; ``after`` counts it once.
    """
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    step = trainer.global_step
    return every > 0 and step > after and step % every == 0
