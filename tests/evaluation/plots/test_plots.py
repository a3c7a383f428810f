"""Every kind of picture: what is drawn, by the figure itself, and the two files."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from evaluation.test_runs import make_run
from sentrep.errors import InputError
from sentrep.evaluation.plots import (
    Histograms,
    draw_before_after,
    draw_cosines,
    draw_curves,
    draw_negatives,
    draw_neighbours,
    draw_plane,
    draw_projection,
    draw_scores,
    draw_similarities,
    draw_sweep,
    project,
    read_cosines,
    sample_nearest_negatives,
    save_figure,
    sweep_series,
)
from sentrep.evaluation.plots.style import DOTS, WIDTH
from sentrep.evaluation.runs import find_runs
from sentrep.functional.geometry import nearest_negatives
from support import tiny_encoder, toy_sentences

RNG = np.random.default_rng(0)
RUNS = {
    name: {
        "train/loss": [(step, rise + 1 / step) for step in range(1, 41)],
        "train/alignment": [(10, 0.3 + rise), (20, 0.2), (30, 0.1)],
        "train/uniformity": [(10, -1.0 - rise), (20, -2.0)],
        "val/sts": [(0, 50.0), (20, 60.0 + rise)],
    }
    for name, rise in (("a", 0.0), ("b", 1.0))
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
        "loss", "dev Spearman × 100", "alignment (↓)", "uniformity (↓)",
    ]  # fmt: skip
    assert figure.axes[-1].get_xlabel() == "optimiser step"
    assert legend_words(figure) == ["a", "b"]
    a, b = figure.axes[0].lines
    assert (a.get_color(), a.get_linestyle(), a.get_marker()) != (b.get_color(), b.get_linestyle(), b.get_marker())
    assert list(zip(*figure.axes[1].lines[1].get_data(), strict=True)) == RUNS["b"]["val/sts"]
    check_files(figure, tmp_path)


def test_smoothing_is_a_running_mean_of_training_metrics_alone() -> None:
    figure = draw_curves({"a": RUNS["a"]}, ["train/loss", "val/sts"], smooth=5)
    raw, smooth = figure.axes[0].lines
    values = [value for _, value in RUNS["a"]["train/loss"]]
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
        draw_curves({"a": {}})


def write_cosines(folder: Path) -> Histograms:
    """Random counts at the steps 5, 10 and 20."""
    edges = np.linspace(-1, 1, 101)
    counts = {step: {kind: RNG.integers(0, 9, 100) for kind in ("positive", "negative")} for step in (5, 10, 20)}
    rows = [
        f"{step},{kind},{edges[i]:.2f},{edges[i + 1]:.2f},{values[i]}\n"
        for step, kinds in counts.items()
        for kind, values in kinds.items()
        for i in range(100)
    ]
    (folder / "cosines.csv").write_text("step,kind,left,right,count\n" + "".join(rows))
    return {step: {kind: (values, edges) for kind, values in kinds.items()} for step, kinds in counts.items()}


def test_cosines(tmp_path: Path) -> None:
    written, found = write_cosines(tmp_path), read_cosines(tmp_path)
    assert list(found) == [5, 10, 20]
    figure = draw_cosines({"a": found, "b": {10: found[10]}})
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["step 5", "step 20", "step 10", ""]
    for axis, step in zip(figure.axes, (5, 20, 10), strict=False):
        lines = [patch.get_data() for patch in axis.patches if not patch.get_fill()]
        for (density, edges, _), (counts, bins) in zip(lines, written[step].values(), strict=True):
            np.testing.assert_allclose(density, counts / counts.sum() / 0.02)
            np.testing.assert_allclose(edges, bins, atol=1e-12)
    assert legend_words(figure) == ["positives", "in-batch negatives"]
    assert figure.axes[0].get_ylabel() == "a\ndensity"
    check_files(figure, tmp_path)


def test_cosines_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"add CosineMonitor to trainer\.callbacks"):
        read_cosines(tmp_path)
    (tmp_path / "cosines.csv").write_text("step,kind,left,right,count\n1,positive,0,1,2\n1,other,0,1,2\n")
    with pytest.raises(InputError, match=r"cosines\.csv, line 3: not a bin"):
        read_cosines(tmp_path)
    (tmp_path / "cosines.csv").write_text("step,kind,left,right,count\n")
    with pytest.raises(InputError, match="no histogram of positives and negatives"):
        read_cosines(tmp_path)


def test_plane(tmp_path: Path) -> None:
    figure = draw_plane(RUNS)
    (axis,) = figure.axes
    assert (axis.get_xlabel()[:10], axis.get_ylabel()[:9]) == ("uniformity", "alignment")
    way, start, end = axis.lines[3:]
    assert (list(way.get_xdata()), list(way.get_ydata())) == ([-2.0, -2.0], [1.3, 0.2])
    assert (start.get_xdata()[0], end.get_ydata()[0]) == (-2.0, 0.2)
    assert legend_words(figure) == ["a", "b"]
    assert len(draw_plane(RUNS, path=False).axes[0].lines) == 2
    check_files(figure, tmp_path)
    with pytest.raises(InputError, match="a: no step with val/alignment"):
        draw_plane(RUNS, prefix="val/")
    pairs = {"val/dev/alignment": [(0, 0.5), (10, 0.4)], "val/dev/uniformity": [(0, -1.0), (10, -2.0)]}
    assert list(draw_plane({"a": pairs}, prefix="val/dev/").axes[0].lines[0].get_xdata()) == [-1.0, -2.0]


def test_negatives(tmp_path: Path) -> None:
    vectors = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    found = sample_nearest_negatives(vectors, [32, 8], batches=5, seed=3)
    assert list(found) == [8, 32]
    rows = np.random.default_rng([3, 8, 4]).choice(40, 8, replace=False)
    np.testing.assert_array_equal(found[8][4], nearest_negatives(vectors[torch.from_numpy(rows)]).numpy())
    np.testing.assert_array_equal(found[8], sample_nearest_negatives(vectors, [8], batches=6, seed=3)[8][:5])
    assert (found[32] > found[8].max(0)).all()  # nearer in the larger batch

    figure = draw_negatives(found)
    (axis,) = figure.axes
    assert legend_words(figure) == [f"{rank} negative" for rank in ("nearest", "2nd", "3rd", "4th")]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("batch size", "cosine with the anchor")
    assert axis.get_title(loc="left") == "mean ± sd of 5 batches"
    assert [text.get_text() for text in axis.get_xticklabels()] == ["8", "32"]
    line, _, (bars,) = axis.containers[1]
    np.testing.assert_allclose(line.get_xydata(), [[size, found[size][:, 1].mean()] for size in (8, 32)], rtol=1e-6)
    low, high = bars.get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(found[8][:, 1].std(ddof=1), rel=1e-4)
    check_files(figure, tmp_path)
    assert (
        draw_negatives(sample_nearest_negatives(vectors, [8], batches=1)).axes[0].get_title(loc="left") == "one batch"
    )


@pytest.mark.parametrize(
    ("sizes", "batches", "message"),
    [([4], 1, "batch size 4: expected 5 to 40"), ([41], 1, "batch size 41"), ([8], 0, "0 batches"), ([], 1, "0 sizes")],
)
def test_batches_that_cannot_be_drawn_are_refused(sizes: list[int], batches: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sample_nearest_negatives(torch.randn(40, 4), sizes, batches)


@pytest.mark.slow
def test_three_pictures_of_sentences() -> None:
    before, after = (tiny_encoder(pooling="mean", seed=seed).eval() for seed in (0, 1))
    texts = [*toy_sentences(9), "a very long sentence " * 20]
    near = draw_neighbours(after, texts[:2], texts, k=3)
    words = [text.get_text() for text in near.axes[0].texts]
    found = after.search(texts[0], texts, 4)
    assert words[0] == texts[0]
    expected = [f"{score:.2f}   {texts[place][:80]}" for place, score in zip(*found, strict=True)][1:]  # but itself
    assert [word[:87] for word in words[1:4]] == [line[:87] for line in expected]
    assert len(words) == 2 * 4
    heat = draw_similarities(after, texts[:4], texts)
    (image,) = heat.axes[0].images
    np.testing.assert_allclose(
        image.get_array(), after.similarity(after.encode(texts[:4]), after.encode(texts)), atol=1e-6
    )
    assert len(heat.axes[0].texts) == 40
    assert heat.axes[0].get_xticklabels()[-1].get_text() == "a very long sentence a very…"
    moved = draw_before_after(before, after, texts)
    assert [axis.get_title(loc="left") for axis in moved.axes] == ["before", "after"]
    assert [len(axis.texts) for axis in moved.axes] == [10, 10]
    assert legend_words(draw_before_after(before, after, texts, list("ab" * 5))) == ["a", "b"]
    assert near._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # what a notebook shows
    for wrong in (lambda: draw_similarities(after, texts * 5), lambda: draw_before_after(before, after, texts, ["a"])):
        with pytest.raises(InputError, match=r"1 to 40 sentences|1 labels for 10 points"):
            wrong()


def test_a_mean_over_seeds_has_the_name_of_no_seed(tmp_path: Path) -> None:
    for batch in (4, 8):
        for seed in (1, 2):
            folder = tmp_path / f"batch-{batch}" / f"seed-{seed}" / f"batch-{batch}" / "version_0"
            make_run(folder, seed, 0.05, "step,val/sts\n10,70\n")
            config = folder / "config.yaml"
            config.write_text(config.read_text().replace("toy", f"toy{batch}"))
    series = sweep_series(find_runs([tmp_path]), "model.objectives.simcse.temperature", "val/sts")
    assert [(one.label, len(one.scores[0])) for one in series] == [("batch-4", 2), ("batch-8", 2)]


def test_settings_of_one_recipe_are_two_lines_and_a_seed_counts_once(tmp_path: Path) -> None:
    for number, (batch, score) in enumerate([(4, 70), (8, 75), (8, 76)]):
        folder = make_run(tmp_path / "run" / f"version_{number}", 1, 0.05, f"step,val/sts\n10,{score}\n")
        config = folder / "config.yaml"
        config.write_text(config.read_text().replace("data:", f"data:\n  batch_size: {batch}"))
    key = "model.objectives.simcse.temperature"
    series = sweep_series(find_runs([tmp_path]), key, "val/sts")
    assert [one.label for one in series] == ["batch_size 4", "batch_size 8"]
    assert [one.scores for one in series] == [[[70.0]], [[76.0]]]
    assert legend_words(draw_sweep(series, key, "val/sts")) == [one.label for one in series]


def test_sweep(tmp_path: Path) -> None:
    scores = {(0.05, 1): 70, (0.05, 2): 74, (0.5, 1): 60, (0.5, 2): 61, (0.5, 3): 65}
    for (temperature, seed), score in scores.items():
        metrics = f"step,val/sts\n0,1\n10,{score}\n20,{score - 3}\n"
        make_run(tmp_path / f"{temperature}-{seed}" / "version_0", seed, temperature, metrics)
    key, runs = "model.objectives.simcse.temperature", find_runs([tmp_path])
    (series,) = sweep_series(runs, key, "val/sts")
    assert series.xs == [0.05, 0.5]
    assert series.means == pytest.approx([72, 62])
    assert series.deviations == pytest.approx([8**0.5, 7**0.5])
    assert sweep_series(runs, key, "val/sts", "last")[0].means == pytest.approx([69, 59])
    assert sweep_series(runs, key, "val/sts", "min")[0].means == [1, 1]

    figure = draw_sweep([series], key, "val/sts")
    (axis,) = figure.axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("objectives.simcse.temperature", "dev Spearman × 100")
    assert (axis.get_xscale(), axis.get_title(loc="left")) == ("log", "mean ± sd of 2 to 3 seeds")
    line, _, (bars,) = axis.containers[0]
    np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), [72, 62])
    low, high = bars.get_segments()[0][:, 1]
    assert (high - low) / 2 == pytest.approx(8**0.5)
    check_files(figure, tmp_path)

    by_seed = draw_sweep(sweep_series(runs, "data.seed", "val/sts"), "data.seed", "val/sts")
    assert by_seed.axes[0].get_xscale() == "linear"
    assert len(legend_words(by_seed)) == 2  # one line for each temperature
    names = sweep_series(runs, "model.objectives.simcse", "val/sts")
    assert {x for one in names for x in one.xs} == {"Contrastive, temperature 0.05", "Contrastive, temperature 0.5"}
    words = draw_sweep(sweep_series(runs, "data.train", "val/sts"), "data.train", "val/sts")
    assert [label.get_text() for label in words.axes[0].get_xticklabels()] == ["toy"]


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_projection(method: str, tmp_path: Path) -> None:
    vectors = np.concatenate([RNG.normal(place, 0.1, (12, 8)) for place in (1.0, -1.0)]) * [[5.0]] * 24
    points, axes = project(vectors.astype(np.float32), method)  # type: ignore[arg-type]
    again, _ = project(vectors.astype(np.float32), method)  # type: ignore[arg-type]
    assert points.shape == (24, 2)
    np.testing.assert_array_equal(points, again)
    middles = points[:12].mean(0), points[12:].mean(0)
    spread = max(
        np.linalg.norm(points[:12] - middles[0], axis=1).max(), np.linalg.norm(points[12:] - middles[1], axis=1).max()
    )
    assert np.linalg.norm(middles[0] - middles[1]) > 2 * spread
    figure = draw_projection(points, axes, ["one"] * 12 + ["two"] * 12)
    first, second = figure.axes[0].collections
    np.testing.assert_allclose(first.get_offsets(), points[:12])
    np.testing.assert_allclose(second.get_offsets(), points[12:])
    assert legend_words(figure) == ["one", "two"]
    assert figure.axes[0].get_xlabel().startswith("PC 1 (" if method == "pca" else "t-SNE 1")
    assert len(draw_projection(points, axes).axes[0].collections) == 1
    check_files(figure, tmp_path)


def test_principal_components_are_those_of_the_covariance() -> None:
    vectors = RNG.normal(size=(30, 5))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    values, axes = np.linalg.eigh(np.cov(unit.T))
    expected = (unit - unit.mean(0)) @ axes[:, [-1, -2]]
    points, names = project(vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(expected), atol=1e-9)
    assert names[0] == f"PC 1 ({values[-1] / values.sum():.0%})"


def test_projections_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="at least four"):
        project(np.ones((3, 4)))
    with pytest.raises(InputError, match="50 different labels"):
        draw_projection(np.ones((50, 2)), ("x", "y"), [str(number) for number in range(50)])


@pytest.mark.parametrize("count", [50, 1200])
def test_scores(count: int, tmp_path: Path) -> None:
    gold = np.arange(count) % 50 / 10.0
    cosines = gold / 5
    cosines[:2] = cosines[1::-1]
    figure = draw_scores(cosines, gold, "STS-B")
    axis, cells = figure.axes[0], figure.axes[0].collections[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("gold score", "cosine")
    drawn = len(cells.get_offsets()) if count == 50 else cells.get_array().sum()
    assert drawn == count
    assert axis.get_title(loc="left") == f"STS-B, {count:,} pairs"
    assert axis.texts[0].get_text() == "Spearman × 100: 100.0"
    check_files(figure, tmp_path)


def test_scores_without_a_correlation_are_refused() -> None:
    with pytest.raises(InputError, match="no rank correlation exists"):
        draw_scores(np.ones(5), np.arange(5.0), "STS-B")


def test_settings_of_matplotlib_are_left_alone_and_bad_places_are_named(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figure = draw_plane(RUNS)
    save_figure(figure, tmp_path / "plane")
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(InputError, match="cannot be written there"):
        save_figure(figure, tmp_path / "plane.png" / "below")
