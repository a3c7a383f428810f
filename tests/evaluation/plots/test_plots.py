"""Every kind of picture: what is drawn, by the figure itself, and the two files."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from evaluation.test_runs import make_run
from sentrep.errors import InputError
from sentrep.evaluation.plots import (
    draw_curves,
    draw_sweep,
    save_figure,
    sweep_table,
)
from sentrep.evaluation.plots.style import DOTS, WIDTH
from sentrep.evaluation.runs import find_runs

RNG = np.random.default_rng(0)
COURSES = {
    name: {
        "train/loss": [(step, rise + 1 / step) for step in range(1, 41)],
        "train/alignment": [(10, 0.3 + rise), (20, 0.2), (30, 0.1)],
        "train/uniformity": [(10, -1.0 - rise), (20, -2.0)],
        "val/sts": [(0, 50.0), (20, 60.0 + rise)],
    }
    for name, rise in (("a", 0.0), ("b", 1.0))
}
RUNS = {
    name: pd.DataFrame({metric: pd.Series(dict(points)) for metric, points in courses.items()})
    for name, courses in COURSES.items()
}


def check_files(figure: Figure, folder: Path) -> None:
    """Both files, a column wide, with no type below 7 points."""
    png, svg = save_figure(figure, folder / "new" / "picture.png")
    height, width, _ = matplotlib.image.imread(png).shape
    assert (width, height) == (round(WIDTH * DOTS), round(figure.get_figheight() * DOTS))
    assert svg.read_text(encoding="utf-8").count("<text") >= 2
    assert [file.name for file in (png, svg)] == ["picture.png", "picture.svg"]
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7


def legend_words(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_curves(tmp_path: Path) -> None:
    figure = draw_curves(RUNS)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "loss", "dev Spearman × 100", "alignment (↓), may rise\nas all vectors spread out", "uniformity (↓)",
    ]  # fmt: skip
    assert figure.axes[-1].get_xlabel() == "optimiser step"
    assert legend_words(figure) == ["a", "b"]
    a, b = figure.axes[0].lines
    assert (a.get_color(), a.get_linestyle(), a.get_marker()) != (b.get_color(), b.get_linestyle(), b.get_marker())
    assert list(zip(*figure.axes[1].lines[1].get_data(), strict=True)) == COURSES["b"]["val/sts"]
    check_files(figure, tmp_path)


def test_smoothing_is_a_running_mean_of_training_metrics_alone() -> None:
    figure = draw_curves({"a": RUNS["a"]}, ["train/loss", "val/sts"], smooth=5)
    raw, smooth = figure.axes[0].lines
    values = [value for _, value in COURSES["a"]["train/loss"]]
    assert list(raw.get_ydata()) == values
    np.testing.assert_allclose(smooth.get_ydata(), [sum(values[i : i + 5]) / 5 for i in range(36)])
    np.testing.assert_allclose(smooth.get_xdata(), range(3, 39))
    assert len(figure.axes[1].lines) == 1
    assert not figure.legends
    for options, message in (
        ({"metrics": ["train/lss"]}, "no run has logged train/lss; there are train/alignment"),
        ({"smooth": 0}, "at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            draw_curves(RUNS, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="none of the usual metrics"):
        draw_curves({"a": pd.DataFrame()})


def test_a_mean_over_seeds_has_the_name_of_no_seed(tmp_path: Path) -> None:
    for batch in (4, 8):
        for seed in (1, 2):
            folder = tmp_path / f"batch-{batch}" / f"seed-{seed}" / f"batch-{batch}" / "version_0"
            make_run(folder, seed, 0.05, "step,val/sts\n10,70\n")
            config = folder / "config.yaml"
            config.write_text(config.read_text().replace("toy", f"toy{batch}"))
    series = sweep_table(find_runs([tmp_path]), "model.objectives.simcse.temperature", "val/sts")
    assert series.groupby("line").size().to_dict() == {"batch-4": 2, "batch-8": 2}


def test_settings_of_one_recipe_are_two_lines_and_a_seed_counts_once(tmp_path: Path) -> None:
    for number, (batch, score) in enumerate([(4, 70), (8, 75), (8, 76)]):
        folder = make_run(tmp_path / "run" / f"version_{number}", 1, 0.05, f"step,val/sts\n10,{score}\n")
        config = folder / "config.yaml"
        config.write_text(config.read_text().replace("data:", f"data:\n  batch_size: {batch}"))
    key = "model.objectives.simcse.temperature"
    series = sweep_table(find_runs([tmp_path]), key, "val/sts")
    assert dict(zip(series["line"], series["score"], strict=True)) == {"batch_size 4": 70.0, "batch_size 8": 76.0}
    assert legend_words(draw_sweep(series, key, "val/sts")) == ["batch_size 4", "batch_size 8"]


def test_sweep(tmp_path: Path) -> None:
    scores = {(0.05, 1): 70, (0.05, 2): 74, (0.5, 1): 60, (0.5, 2): 61, (0.5, 3): 65}
    for (temperature, seed), score in scores.items():
        metrics = f"step,val/sts\n0,1\n10,{score}\n20,{score - 3}\n"
        make_run(tmp_path / f"{temperature}-{seed}" / "version_0", seed, temperature, metrics)
    key, runs = "model.objectives.simcse.temperature", find_runs([tmp_path])
    series = sweep_table(runs, key, "val/sts")
    assert sorted(zip(series["x"], series["score"], strict=True)) == sorted((t, v) for (t, _), v in scores.items())
    assert series["line"].nunique() == 1
    assert set(sweep_table(runs, key, "val/sts", "last")["score"]) == {score - 3 for score in scores.values()}
    assert set(sweep_table(runs, key, "val/sts", "min")["score"]) == {score - 3 for score in scores.values()}

    figure = draw_sweep(series, key, "val/sts")
    (axis,) = figure.axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("objectives.simcse.temperature", "dev Spearman × 100")
    assert (axis.get_xscale(), axis.get_title(loc="left")) == ("log", "mean ± sd of 2 to 3 seeds")
    line, _, (bars,) = axis.containers[0]
    np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), [72, 62])
    low, high = bars.get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(8**0.5)
    check_files(figure, tmp_path)

    by_seed = draw_sweep(sweep_table(runs, "data.seed", "val/sts"), "data.seed", "val/sts")
    assert by_seed.axes[0].get_xscale() == "linear"
    assert len(legend_words(by_seed)) == 2  # one line for each temperature
    names = sweep_table(runs, "model.objectives.simcse", "val/sts")
    assert set(names["x"]) == {"Contrastive, temperature 0.05", "Contrastive, temperature 0.5"}
    words = draw_sweep(sweep_table(runs, "data.train", "val/sts"), "data.train", "val/sts")
    assert [label.get_text() for label in words.axes[0].get_xticklabels()] == ["toy"]


def test_a_sweep_shows_trained_scores_and_leaves_out_runs_without_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    untrained = "step,val/sts\n0,90\n"
    make_run(tmp_path / "worse", 1, 0.05, f"{untrained}10,40\n20,50\n")
    make_run(tmp_path / "short", 2, 0.05, untrained)
    (make_run(tmp_path / "killed", 3, 0.05, "") / "metrics.csv").unlink()
    key, runs = "model.objectives.simcse.temperature", find_runs([tmp_path])
    assert sweep_table(runs, key, "val/sts")["score"].tolist() == [50]
    assert "2 of 3 runs are left out" in caplog.text
    assert f"{tmp_path / 'short'}: no val/sts of a trained model" in caplog.text
    assert f"{tmp_path / 'killed'}: no metrics.csv" in caplog.text
    with pytest.raises(InputError, match=r"no metric 'val/stz'; did you mean 'val/sts'"):
        sweep_table(find_runs([tmp_path / "worse"]), key, "val/stz")


def test_settings_of_matplotlib_are_left_alone_and_bad_places_are_named(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figure = draw_curves(RUNS)
    save_figure(figure, tmp_path / "curves")
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(InputError, match="cannot be written there"):
        save_figure(figure, tmp_path / "curves.png" / "below")
