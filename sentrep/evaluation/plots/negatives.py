"""How near the nearest in-batch negatives come as the batch grows (GS-InfoNCE, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray
from torch import Tensor

from sentrep.errors import InputError
from sentrep.evaluation.plots.style import legend_below, looks, new_figure, styled
from sentrep.functional.geometry import nearest_negatives

RANKS = ("nearest", "2nd", "3rd", "4th")
"""Ranks of an anchor's negatives in its batch."""

NearestNegatives = Mapping[int, NDArray[np.floating]]
"""By batch size, (batches, 4): cosine of an anchor with its nearest, 2nd, ... negative, the mean over the batch."""


def sample_nearest_negatives(
    vectors: Tensor, batch_sizes: Sequence[int], batches: int = 100, seed: int = 0
) -> NearestNegatives:
    """Draw batches of each size at random and take `nearest_negatives` of each.

    Args:
        vectors: (N, D), of distinct sentences.
        batch_sizes: each from 5 to N.
        batches: how many of each size; a batch has no sentence twice.
        seed: batch n of a size is the same whatever other sizes there are, and however many batches.

    Raises:
        InputError: for sizes or a number of batches that cannot be.
    """
    check_batches(len(vectors), batch_sizes, batches)
    drawn = {
        size: [np.random.default_rng([seed, size, n]).choice(len(vectors), size, replace=False) for n in range(batches)]
        for size in sorted(set(batch_sizes))
    }
    return {
        size: torch.stack([nearest_negatives(vectors[torch.from_numpy(rows)], len(RANKS)) for rows in each]).numpy()
        for size, each in drawn.items()
    }


def check_batches(sentences: int, batch_sizes: Sequence[int], batches: int) -> None:
    """Refuse batches that cannot be drawn from so many sentences.

    Raises:
        InputError: says which.
    """
    if batches < 1 or not batch_sizes:
        raise InputError(
            f"{batches} batches of {len(batch_sizes)} sizes from {sentences:,} different sentences; expected at least "
            "one batch and one size"
        )
    for size in batch_sizes:
        if not len(RANKS) < size <= sentences:
            raise InputError(
                f"batch size {size}: expected {len(RANKS) + 1} to {sentences:,}, the number of different sentences; "
                "name other sizes, more text, or a higher limit"
            )


def mean_and_deviation(found: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Over the batches, (4,) and (4,): mean, and standard deviation (n − 1; 0 for one batch)."""
    return found.mean(0), found.std(0, ddof=1) if len(found) > 1 else np.zeros(found.shape[1])


def draw_negatives(found: NearestNegatives) -> Figure:
    """Draw the mean ± standard deviation over the batches against the batch size, a line per rank.

    Args:
        found: of `sample_nearest_negatives`.
    """
    values = [mean_and_deviation(found[size]) for size in found]
    with styled():
        figure = new_figure(2.4)
        axis = figure.add_subplot()
        for rank, look in enumerate(looks(list(RANKS)).values()):
            means, deviations = ([both[part][rank] for both in values] for part in (0, 1))
            axis.errorbar(
                list(found), means, yerr=deviations, **look, markersize=3.5, capsize=2, elinewidth=0.8,
                label=f"{RANKS[rank]} negative",
            )  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_locator(FixedLocator(list(found)))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
        axis.margins(0.06)
        axis.set_xlabel("batch size")
        axis.set_ylabel("cosine with the anchor")
        batches = len(next(iter(found.values())))
        axis.set_title(f"mean ± sd of {batches} batches" if batches > 1 else "one batch", loc="left")
        legend_below(figure)
    return figure
