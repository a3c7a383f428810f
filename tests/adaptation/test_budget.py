"""How much of a text the minutes allow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sentrep.adaptation import budget
from sentrep.adaptation.budget import Budget


@pytest.mark.parametrize("minutes", [5.0, 15.0, 60.0])
def test_reading_takes_less_time_than_training(minutes: float) -> None:
    speed = 40.0
    found = Budget.allowed(speed, minutes)
    read = found.passages + found.distractors + 20 * found.choose + 5 * found.judge
    assert read / speed <= 0.7 * 60 * minutes
    assert found.pairs <= speed * 60 * minutes / 4


def test_short_minutes_still_judge_and_long_ones_search_in_no_more_than_5000() -> None:
    assert Budget.allowed(1, 0.1) == Budget(500, 1000, 60, 120, 500)
    assert Budget.allowed(1e4, 60).distractors == 5000


def test_the_speed_is_measured_once_and_without_the_first_passages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([10.0, 12.0])
    monkeypatch.setattr(budget.time, "perf_counter", lambda: next(clock))
    asked: list[int] = []

    def read(texts: Sequence[str]) -> None:
        asked.append(len(texts))

    texts = [str(number) for number in range(budget.SAMPLE)]
    found = Budget.of(tmp_path, read, texts, 10)
    assert found == Budget.allowed((len(texts) - 16) / 2, 10)
    assert asked == [16, len(texts)]
    assert Budget.of(tmp_path, read, texts, 10) == found
    assert asked == [16, len(texts)]
