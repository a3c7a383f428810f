"""Semantic textual similarity: rank correlation of the cosine with people's judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
from torch import Tensor

from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.functional import spearman
from sentrep.types import ScoredPairs

SENTEVAL_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
"""The seven sets whose mean papers report."""
DEFAULT_SUITE = (*SENTEVAL_SETS, "sickr-all")
"""What ``sentrep evaluate`` runs: the seven, and SICK-R again under MTEB's protocol."""

_DISPLAY_NAMES = {
    **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
    "stsb": "STS-B",
    "stsb-dev": "STS-B dev",
    "sickr": "SICK-R",
    "sickr-dev": "SICK-R dev",
    "sickr-all": "SICK-R (all)",
    "toy-dev": "toy dev",
    "toy-test": "toy test",
}


@dataclass(frozen=True)
class STSResult:
    """Scores of one set."""

    name: str
    """As in `ScoredPairs.name`."""
    pairs: int
    """Number of scored pairs."""
    protocol: str
    """Where split and pooling of sub-sets come from."""
    spearman: float
    """Spearman × 100 of cosine and gold, all sub-sets pooled first (the "all" setting)."""
    pearson: float
    """Pearson × 100, likewise."""
    per_subset: dict[str, tuple[int, float | None]]
    """By sub-set: pairs and Spearman × 100 within it; None where no rank correlation exists."""

    @property
    def display_name(self) -> str:
        """The set's name as papers print it."""
        return display_name(self.name)


def display_name(name: str) -> str:
    """A set's name as papers print it; other names stay as they are.

    Example:
        >>> display_name("stsb-dev"), display_name("my-pairs")
        ('STS-B dev', 'my-pairs')
    """
    return _DISPLAY_NAMES.get(name, name)


def evaluate_sts(
    encoder: SentenceEncoder,
    sets: Sequence[ScoredPairs],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[STSResult]:
    """Score an encoder on similarity sets: Spearman × 100 of the cosine, in the "all" setting.

    Every distinct sentence of all sets is encoded once. Pooling, prompt and length are the encoder's own.

    Args:
        encoder: anything with `SentenceEncoder.pairwise_cosine`.
        sets: any number of sets.
        batch_size: as for `SentenceEncoder.encode`.
        show_progress_bar: likewise.

    Returns:
        One result per set, in their order.

    Raises:
        InputError: for a set whose correlation does not exist, because a cosine is NaN or all are equal.
    """
    first = [sentence for pairs in sets for sentence in pairs.first]
    second = [sentence for pairs in sets for sentence in pairs.second]
    cosine = encoder.pairwise_cosine(first, second, batch_size=batch_size, show_progress_bar=show_progress_bar)
    return [_score(pairs, part) for pairs, part in zip(sets, cosine.split([len(p) for p in sets]), strict=True)]


def senteval_average(scores: Mapping[str, float]) -> float | None:
    """Mean over the seven SentEval sets ("Avg." in papers), or None unless all seven are there.

    Args:
        scores: Spearman × 100 by name of the set; further sets are not counted.
    """
    if not set(SENTEVAL_SETS) <= set(scores):
        return None
    return sum(scores[name] for name in SENTEVAL_SETS) / len(SENTEVAL_SETS)


def _score(pairs: ScoredPairs, cosine: Tensor) -> STSResult:
    try:
        correlation = spearman(cosine, pairs.scores)
    except ValueError as error:
        raise InputError(f"{pairs.name}: {error}; if the cosines are at fault, the encoder has collapsed") from error
    return STSResult(
        name=pairs.name,
        pairs=len(pairs),
        protocol=pairs.protocol,
        spearman=correlation,
        pearson=100.0 * float(scipy.stats.pearsonr(cosine.double().numpy(), pairs.scores).statistic),
        per_subset=_per_subset(pairs, cosine),
    )


def _per_subset(pairs: ScoredPairs, cosine: Tensor) -> dict[str, tuple[int, float | None]]:
    names = np.array(pairs.subsets or [])
    gold = np.array(pairs.scores)
    detail: dict[str, tuple[int, float | None]] = {}
    for name in dict.fromkeys(pairs.subsets or []):
        rows = np.flatnonzero(names == name)
        try:
            detail[name] = (len(rows), spearman(cosine.numpy()[rows], gold[rows]))
        except ValueError:  # a single pair, or one gold score for all: the set as a whole still has its score
            detail[name] = (len(rows), None)
    return detail
