"""The course of metrics."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from sentrep.evaluation.history import MetricHistory, MetricsFile, is_log_step


def test_values_are_copied_and_survive_a_checkpoint() -> None:
    history, loss = MetricHistory(), torch.tensor(2.0, requires_grad=True)
    history.add(10, {"train/loss": loss})
    with torch.no_grad():
        loss.zero_()  # Lightning reuses its tensors
    history.add(20, {"train/loss": loss, "val/sts": torch.tensor(70.0)})
    assert history.courses == {"train/loss": [(10, 2.0), (20, 0.0)], "val/sts": [(20, 70.0)]}

    restored = MetricHistory()
    restored.add(5, {"train/loss": torch.tensor(9.0)})  # of a run that is not continued
    restored.load_state_dict(history.state_dict())
    restored.add(30, {"train/loss": torch.tensor(1.0)})
    assert restored.courses == {"train/loss": [(10, 2.0), (20, 0.0), (30, 1.0)], "val/sts": [(20, 70.0)]}


def test_the_table_has_a_row_per_step_and_gaps(tmp_path: Path) -> None:
    history, path = MetricHistory(), tmp_path / "new" / "metrics.csv"
    history.add(0, {"val/sts": torch.tensor(50.5)})
    history.add(10, {"train/loss": torch.tensor(0.25)})
    file = MetricsFile(path)
    file.write(history.courses)
    history.add(10, {"val/sts": torch.tensor(60.0)})
    file.write(history.courses)
    assert path.read_text() == "step,val/sts,train/loss\n0,50.5,\n10,60.0,0.25\n"
    assert [file.name for file in path.parent.iterdir()] == ["metrics.csv"]


def test_a_row_is_added_at_the_end_and_other_columns_or_values_of_a_step_rewrite_the_file(tmp_path: Path) -> None:
    history, path = MetricHistory(), tmp_path / "metrics.csv"
    path.write_text("of an older run\n")
    file, whole = MetricsFile(path), MetricsFile(tmp_path / "whole.csv")
    rows: list[tuple[int, dict[str, float]]] = [
        (10, {"train/loss": 0.1}), (20, {"train/loss": 1 / 3}), (20, {"val/sts": 60.0}), (30, {"train/loss": -2e-9}),
        (40, {"train/loss": float("nan"), "train/new": 1.0}), (50, {"train/new": 2.0}), (50, {"train/loss": 7.0}),
    ]  # fmt: skip
    rewritten = []
    for step, values in rows:
        history.add(step, {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()})
        before = path.stat().st_ino
        file.add(history.courses, step)
        whole.write(history.courses)
        assert path.read_text() == (tmp_path / "whole.csv").read_text()
        rewritten.append(path.stat().st_ino != before)
    assert rewritten == [True, False, True, False, True, False, True]
    path.unlink()
    history.add(60, {"train/new": torch.tensor(3.0)})
    file.add(history.courses, 60)
    assert path.read_text().startswith("step,train/loss,")


def test_a_full_disk_leaves_no_half_row(tmp_path: Path) -> None:
    history, path, limits = MetricHistory(), tmp_path / "metrics.csv", resource.getrlimit(resource.RLIMIT_FSIZE)
    file = MetricsFile(path)
    history.add(10, {"train/loss": torch.tensor(0.5)})
    file.add(history.courses, 10)
    history.add(20, {"train/loss": torch.tensor(0.25)})
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 3, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            file.add(history.courses, 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "step,train/loss\n10,0.5\n"
    file.add(history.courses, 20)
    assert path.read_text() == "step,train/loss\n10,0.5\n20,0.25\n"


@pytest.mark.parametrize(
    ("every", "step", "after", "expected"),
    [(10, 20, 10, True), (10, 21, 10, False), (10, 20, 20, False), (0, 20, 10, False)],
)
def test_a_log_step_counts_once(every: int, step: int, after: int, expected: bool) -> None:
    trainer = SimpleNamespace(log_every_n_steps=every, global_step=step)
    assert is_log_step(trainer, after=after) is expected  # type: ignore[arg-type]
