"""The picture: that it is drawn, shows what it is given, and leaves no global state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.image
import pandas as pd

from sentrep.evaluation import plot_training_curves

Course = list[tuple[int, float]]


def plot(history: Mapping[str, Course], path: Path, **options: Any) -> None:
    """Draw the courses of metrics."""
    frame = pd.DataFrame({name: pd.Series(dict(course)) for name, course in history.items()})
    plot_training_curves(frame, path, **options)


def course(count: int, first: float, last: float, every: int = 10) -> Course:
    return [(every * (i + 1), first + (last - first) * i / count) for i in range(count)]


HISTORY: dict[str, Course] = {
    "train/loss": course(100, 2.0, 0.5),
    "train/alignment": course(100, 0.3, 0.2),
    "train/uniformity": course(100, -1.0, -3.0),
    "val/stsb-dev": [(0, 70.0), (500, 80.0), (1000, 78.0)],
    "val/sickr-dev": [(0, 60.0), (500, 66.0), (1000, 64.0)],
    "val/sts": [(0, 65.0), (500, 73.0), (1000, 71.0)],
}


def test_a_png_with_four_panels_is_drawn(tmp_path: Path) -> None:
    plot(HISTORY, tmp_path / "new" / "curves.png", best_step=500)
    picture = matplotlib.image.imread(tmp_path / "new" / "curves.png")
    height, width, _ = picture.shape
    assert (height, width) == (1050, 990)  # 3.3 × 3.5 inches at 300 dots
    quarters = [
        picture[rows, columns, :3]
        for rows in (slice(0, height // 2), slice(height // 2, height))
        for columns in (slice(0, width // 2), slice(width // 2, width))
    ]
    assert all((quarter < 0.9).any(axis=2).mean() > 0.01 for quarter in quarters)  # ink in each


def test_an_svg_says_what_is_what(tmp_path: Path) -> None:
    plot(HISTORY, tmp_path / "curves.svg", best_step=500)
    text = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    for words in ("loss", "dev Spearman", "alignment", "uniformity", "optimiser step", "STS-B dev", "mean of 2"):
        assert words in text
    assert "before: 65.0" in text
    assert "chosen, step 500: 73.0" in text


def test_a_monitor_that_is_no_score_has_its_panel_and_nothing_is_empty(tmp_path: Path) -> None:
    history = {"train/loss": [(10, 1.0)], "val/dev/mine": [(0, 40.0), (10, 61.0), (20, 55.0)]}
    plot(history, tmp_path / "free.svg", best_step=10, monitor="val/dev/mine")
    text = (tmp_path / "free.svg").read_text(encoding="utf-8")
    for words in ("val/dev/mine", "before: 40.0", "chosen, step 10: 61.0"):
        assert words in text
    assert "Spearman" not in text
    suites = {f"val/suite{number}": [(10, 1.0)] for number in range(5)}  # too many for lines, and no mean of them
    plot({**history, **suites}, tmp_path / "suites.svg")
    assert "Spearman" not in (tmp_path / "suites.svg").read_text(encoding="utf-8")
