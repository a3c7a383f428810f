"""Semantic textual similarity: rank correlation of the cosine with people's judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats
from torch import Tensor

from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.sets.transfer import TRANSFER_NAMES
from sentrep.data.text.fingerprints import hash_columns
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.results import TaskResult
from sentrep.functional import spearman

SENTEVAL_SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
"""The seven sets whose mean papers report."""
DEFAULT_SUITE = (*SENTEVAL_SETS, "sickr-all")
"""What ``sentrep evaluate`` runs: the seven, and SICK-R again under MTEB's protocol."""

PROTOCOLS = ("SentEval", "MTEB")
_BOTH = (*SENTEVAL_SETS[:-1], "stsb-dev")
"""Sets that are the same pairs under both protocols, with all sub-sets pooled."""
_ONE = {"sickr": "SentEval", "sickr-dev": "SentEval", "sickr-all": "MTEB"}

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


def display_name(name: str) -> str:
    """A set's name as papers print it; other names stay as they are.

    Examples:
        >>> display_name("stsb-dev"), display_name("my-pairs")
        ('STS-B dev', 'my-pairs')
    """
    return _DISPLAY_NAMES.get(name, name.upper() if name in TRANSFER_NAMES else name)


def evaluate_sts(
    encoder: SentenceEncoder,
    sets: Sequence[ScoredPairs],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on similarity sets: Spearman × 100 of the cosine, in the "all" setting.

    Every distinct sentence of all sets is encoded once. Pooling, prompt and length are the encoder's own.

    Args:
        encoder: anything with `SentenceEncoder.pairwise_cosine`, of which ``batch_size`` and ``show_progress_bar`` are.
        sets: any number of sets.

    Returns:
        One result per set, in their order; all sub-sets are pooled for the scores.

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


def side_by_side(scores: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Spearman × 100 under SentEval's and under MTEB's protocol, by the set's name in papers.

    The two differ in SICK-R only, where SentEval takes the test pairs and MTEB all of them. The mean of the seven is
    there, as ``Avg.``, for a protocol under which all seven are.

    Args:
        scores: Spearman × 100 by name of the set; sets that belong to neither protocol are left out.

    Examples:
        >>> side_by_side({"stsb": 82.0, "sickr": 78.0, "sickr-all": 77.5})
        {'STS-B': {'SentEval': 82.0, 'MTEB': 82.0}, 'SICK-R': {'SentEval': 78.0, 'MTEB': 77.5}}
    """
    table: dict[str, dict[str, float]] = {}
    for name, score in scores.items():
        if name in _BOTH:
            table[display_name(name)] = dict.fromkeys(PROTOCOLS, score)
        elif name in _ONE:
            row = "SICK-R" if name in ("sickr", "sickr-all") else display_name(name)
            table.setdefault(row, {})[_ONE[name]] = score
    mteb = {**scores, "sickr": scores["sickr-all"]} if "sickr-all" in scores else {}
    both = {"SentEval": senteval_average(scores), "MTEB": senteval_average(mteb)}
    means = {protocol: mean for protocol, mean in both.items() if mean is not None}
    return {**table, "Avg.": means} if means else table


def _split(name: str) -> str:
    if name == "sickr-all":
        return "train + dev + test"
    return "dev" if name.endswith("-dev") else "test" if name in _DISPLAY_NAMES else "all"


def _score(pairs: ScoredPairs, cosine: Tensor) -> TaskResult:
    try:
        correlation = spearman(cosine, pairs.scores)
    except ValueError as error:
        raise InputError(f"{pairs.name}: {error}; if the cosines are at fault, the encoder has collapsed") from error
    pearson = 100.0 * float(scipy.stats.pearsonr(cosine.double().numpy(), pairs.scores).statistic)
    return TaskResult(
        pairs.name,
        pairs.protocol,
        _split(pairs.name),
        {"pairs": len(pairs)},
        {"spearman": correlation, "pearson": pearson},
        hash_columns(pairs.first, pairs.second, pairs.scores),
        _per_subset(pairs, cosine),
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
