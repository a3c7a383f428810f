"""``sentrep plot``: pictures for a paper, each written as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console

from sentrep.cli.encode import load_encoder
from sentrep.cli.functions import run_one_of
from sentrep.data.sets.sts import PairsFile, load_sts
from sentrep.data.text.corpus import open_corpus
from sentrep.errors import InputError
from sentrep.evaluation.plots import (
    draw_cosines,
    draw_curves,
    draw_negatives,
    draw_plane,
    draw_projection,
    draw_scores,
    draw_sweep,
    project,
    read_cosines,
    sample_nearest_negatives,
    save_figure,
    sweep_series,
)
from sentrep.evaluation.plots.encoders import Method
from sentrep.evaluation.plots.negatives import RANKS as NEGATIVE_RANKS
from sentrep.evaluation.plots.negatives import check_batches, mean_and_deviation
from sentrep.evaluation.plots.style import picture_files
from sentrep.evaluation.plots.sweep import Take
from sentrep.evaluation.runs import find_runs
from sentrep.evaluation.sts import display_name
from sentrep.reports.frames import as_frame, screen_table
from sentrep.reports.text import printable


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_one_of(KINDS, command, words)
    return 0


def curves(runs: list[str], *, metrics: list[str] | None = None, smooth: int = 1, output: str = "curves") -> None:
    """Training curves: metrics of one or several runs against the optimiser step.

    Args:
        runs: folders of runs, or folders with runs below them.
        metrics: what to draw, for example train/loss val/sts; by default loss, development score, alignment and
            uniformity.
        smooth: points of a running mean of train/ metrics.
        output: the files to write, without .png and .svg.
    """
    picture_files(output)
    found = find_runs(runs)
    _save(draw_curves({one.label: one.courses for one in found}, metrics, smooth), output)


def cosines(runs: list[str], *, output: str = "cosines") -> None:
    """Histograms of the cosines of positives and of in-batch negatives, at the first and the last monitored step.

    Args:
        runs: folders of runs that were trained with CosineMonitor, or folders with such runs below them.
        output: the files to write, without .png and .svg.
    """
    picture_files(output)
    _save(draw_cosines({one.label: read_cosines(one.path) for one in find_runs(runs)}), output)


def plane(runs: list[str], *, path: bool = True, prefix: str = "train/", output: str = "plane") -> None:
    """The plane of alignment and uniformity: where runs end, and the way they take.

    Args:
        runs: folders of runs, or folders with runs below them.
        path: draw the way; false draws the end alone.
        prefix: of the two metrics, in front of alignment and uniformity.
        output: the files to write, without .png and .svg.
    """
    picture_files(output)
    _save(draw_plane({one.label: one.courses for one in find_runs(runs)}, path=path, prefix=prefix), output)


def sweep(runs: list[str], *, x: str, y: str = "val/sts", take: Take = "max", output: str = "sweep") -> None:
    """A score against a setting: mean ± standard deviation over runs that differ in nothing but their seeds.

    Args:
        runs: folders of runs, or folders with runs below them, such as the output of sentrep compare.
        x: key of the setting, for example model.objectives.simcse.temperature.
        y: metric.
        take: which value of the metric is a run's score: max, min or last.
        output: the files to write, without .png and .svg.
    """
    picture_files(output)
    _save(draw_sweep(sweep_series(find_runs(runs), x, y, take), x, y), output)


def projection(
    model: str,
    *,
    texts: str,
    column: str = "text",
    labels: str | None = None,
    method: Method = "pca",
    limit: int = 2000,
    seed: int = 0,
    pooling: str | None = None,
    device: str | None = None,
    output: str = "projection",
) -> None:
    """Embeddings of some sentences in two dimensions.

    Args:
        model: a checkpoint, a model folder or a hub id.
        texts: file of sentences; the first ones are drawn, up to the limit.
        column: which column has them.
        labels: which column has labels, to be told apart by colour and marker.
        method: pca or tsne.
        limit: most sentences.
        seed: of the method.
        pooling: replaces the model's own.
        device: cpu, cuda, ...; by default a GPU where there is one.
        output: the files to write, without .png and .svg.
    """
    picture_files(output, [texts])
    rows = [row.sentences for row in open_corpus(texts, [column, *([labels] if labels else [])]).rows()]
    kept = [row for row in rows if row[0].strip()][:limit]
    vectors = np.asarray(load_encoder(model, pooling, device).encode([row[0] for row in kept], show_progress_bar=False))
    points, axes = project(vectors, method, seed)
    _save(draw_projection(points, axes, [row[1] for row in kept] if labels else None), output)


def negatives(
    model: str,
    *,
    texts: str,
    column: str = "text",
    batch_sizes: list[int] | None = None,
    batches: int = 100,
    limit: int = 10_000,
    seed: int = 0,
    pooling: str | None = None,
    device: str | None = None,
    output: str = "negatives",
) -> None:
    """The cosines of a sentence with its four nearest negatives in a batch, against the batch size.

    Args:
        model: a checkpoint, a model folder or a hub id.
        texts: file of sentences.
        column: which column has them.
        batch_sizes: sizes of the batches; by default 16, 32, 64, ... up to 1,024, as far as the text goes.
        batches: how many of each size are drawn.
        limit: most sentences that the batches are drawn from, themselves drawn from the text; each counts once.
        seed: of all draws.
        pooling: replaces the model's own.
        device: cpu, cuda, ...; by default a GPU where there is one.
        output: the files to write, without .png and .svg.
    """
    picture_files(output, [texts])
    read = dict.fromkeys(row.sentences[0] for row in open_corpus(texts, [column]).rows() if not row.blank)
    if seed < 0:
        raise InputError(f"seed {seed}: expected 0 or more")
    drawn = np.random.default_rng(seed).permutation(len(read))[: max(limit, 0)]
    sizes = [2**n for n in range(4, 11) if 2**n <= len(drawn)] if batch_sizes is None else batch_sizes
    check_batches(len(drawn), sizes, batches)  # before the text is encoded
    sentences = list(read)
    encoder = load_encoder(model, pooling, device)
    vectors = torch.from_numpy(np.asarray(encoder.encode([sentences[row] for row in drawn])))
    found = sample_nearest_negatives(vectors, sizes, batches, seed)
    rows = [
        (f"{size:,}", *(f"{mean:.3f} ± {sd:.3f}" for mean, sd in zip(*mean_and_deviation(cosines), strict=True)))
        for size, cosines in found.items()
    ]
    Console().print(screen_table(as_frame(rows, columns=["batch size", *NEGATIVE_RANKS])))
    _save(draw_negatives(found), output)


def scores(
    model: str,
    *,
    set: str,
    sts_folder: str | None = None,
    columns: list[str] | None = None,
    pooling: str | None = None,
    batch_size: int = 64,
    device: str | None = None,
    output: str = "scores",
) -> None:
    """Cosines of the pairs of a similarity set against their gold scores, with Spearman's correlation.

    Args:
        model: a checkpoint, a model folder or a hub id.
        set: a name such as stsb-dev, or a file of two sentences and a score.
        sts_folder: folder of the SentEval data; without it the named sets come from the hub.
        columns: columns of a file: [sentence1,sentence2,score].
        pooling: replaces the model's own.
        batch_size: sentences of average length in one forward pass.
        device: cpu, cuda, ...; by default a GPU where there is one.
        output: the files to write, without .png and .svg.
    """
    picture_files(output, [set])
    pairs = load_sts(set if columns is None else PairsFile(set, tuple(columns)), sts_folder)  # type: ignore[arg-type]
    encoder = load_encoder(model, pooling, device)
    cosine = encoder.pairwise_cosine(pairs.first, pairs.second, batch_size=batch_size).numpy()
    _save(draw_scores(cosine, np.asarray(pairs.scores), display_name(pairs.name)), output)


KINDS: dict[str, Callable[..., Any]] = {
    draw.__name__: draw for draw in (curves, cosines, plane, sweep, projection, negatives, scores)
}
"""Kind of picture: the function that draws it."""


def _save(figure: Figure, output: str) -> None:
    print(printable(" and ".join(map(str, save_figure(figure, output)))))
