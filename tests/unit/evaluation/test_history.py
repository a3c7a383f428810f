"""The course of metrics."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from sentrep.evaluation.history import MetricHistory, dose, is_log_step, write_metrics


def courses(frame: pd.DataFrame) -> dict[str, dict[int, float]]:
    """By metric, its values by step."""
    return {str(name): values.dropna().to_dict() for name, values in frame.items()}


def test_values_are_copied_and_survive_a_checkpoint() -> None:
    history, loss = MetricHistory(), torch.tensor(2.0, requires_grad=True)
    history.add(10, {"train/loss": loss})
    with torch.no_grad():
        loss.zero_()  # Lightning reuses its tensors
    history.add(20, {"train/loss": loss, "val/sts": torch.tensor(70.0)})
    assert courses(history.frame) == {"train/loss": {10: 2.0, 20: 0.0}, "val/sts": {20: 70.0}}

    restored = MetricHistory()
    restored.add(5, {"train/loss": torch.tensor(9.0)})  # of a run that is not continued
    restored.load_state_dict(history.state_dict())
    restored.add(30, {"train/loss": torch.tensor(1.0)})
    assert courses(restored.frame) == {"train/loss": {10: 2.0, 20: 0.0, 30: 1.0}, "val/sts": {20: 70.0}}


@pytest.mark.parametrize(
    ("every", "step", "after", "expected"),
    [(10, 20, 10, True), (10, 21, 10, False), (10, 20, 20, False), (0, 20, 10, False)],
)
def test_a_log_step_counts_once(every: int, step: int, after: int, expected: bool) -> None:
    trainer = SimpleNamespace(log_every_n_steps=every, global_step=step)
    assert is_log_step(trainer, after=after) is expected  # type: ignore[arg-type]


def test_the_dose_is_the_mean_over_the_steps_of_the_sum_over_the_samplers_of_an_objective(tmp_path: Path) -> None:
    def found() -> float | None:
        write_metrics(tmp_path / "metrics.csv", pd.DataFrame(logged).rename_axis("step"))
        return dose(tmp_path / "metrics.csv")

    logged = {"train/loss": [1.0, 1.0, 1.0], "train/simcse/hardness": [0.2, None, 0.2]}
    assert found() is None
    logged |= {"train/simcse/dose/noise": [1e-6, None, 3e-6], "train/simcse/dose/bank": [0.0, None, 0.2]}
    assert found() == pytest.approx(0.1 + 2e-6)
    logged |= {"train/cut/d8/dose/noise": [0.3, None, 0.5], "train/cut/d4/dose/noise": [0.3, None, 0.3]}
    assert found() == pytest.approx(0.4)
