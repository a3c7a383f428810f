"""Semantic textual similarity: rank correlation of the cosine with people's judgements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from sentrep.data.fingerprints import hash_columns
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.sets.transfer import TRANSFER_NAMES
from sentrep.encoder.encode import TextEncoder, encode, encode_pairs
from sentrep.errors import InputError
from sentrep.evaluation.results import TaskResult
from sentrep.functional import spearman
from sentrep.io.text import printable

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


def display_name(name: str) -> str:
    """A set's name as papers print it; other names as a terminal may show them.

    Examples:
        >>> display_name("stsb-dev"), display_name("my-pairs")
        ('STS-B dev', 'my-pairs')
    """
    return _DISPLAY_NAMES.get(name, name.upper() if name in TRANSFER_NAMES else printable(name))


def evaluate_sts(
    encoder: TextEncoder,
    sets: Sequence[ScoredPairs],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on similarity sets: Spearman × 100 of the cosine, in the "all" setting.

    Every distinct sentence of all sets is encoded once. Pooling, prompt and length are the encoder's own.

    Args:
        encoder: a `SentenceEncoder` or a `GraphEncoder`.
        sets: any number of sets.
        batch_size: as in `SentenceEncoder.encode`.
        show_progress_bar: as in `SentenceEncoder.encode`.

    Returns:
        One result per set, in their order.

    Raises:
        InputError: for a set whose correlation does not exist, because a cosine is NaN or all are equal.
    """
    first = [sentence for pairs in sets for sentence in pairs.first]
    second = [sentence for pairs in sets for sentence in pairs.second]
    run = partial(encode, encoder, batch_size=batch_size, show_progress_bar=show_progress_bar)
    one, other = encode_pairs(run, first, second)
    cosine = (one * other).sum(1)
    return [_score(pairs, part) for pairs, part in zip(sets, cosine.split([len(p) for p in sets]), strict=True)]


def rank_correlation(name: str, cosine: Tensor, gold: Sequence[float]) -> float:
    """`sentrep.functional.spearman` of cosines and gold scores.

    Args:
        name: of the set, for the message.
        cosine: (P,), on the CPU.
        gold: P gold scores.

    Raises:
        InputError: the correlation does not exist, because a score is NaN or all are equal.
    """
    try:
        return spearman(cosine, gold)
    except ValueError as error:
        raise InputError(f"{name}: {error}; the encoder may have collapsed") from error


def _score(pairs: ScoredPairs, cosine: Tensor) -> TaskResult:
    scores = {"spearman": rank_correlation(pairs.name, cosine, pairs.scores)}
    data = hash_columns(pairs.first, pairs.second, pairs.scores)
    return TaskResult(pairs.name, pairs.protocol, {"pairs": len(pairs)}, scores, data)
