"""The suites of ``sentrep evaluate``: the names of their sets, reading and scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sentrep.data.sets.labelled import LabelledSet
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.data.sets.sts import SET_NAMES, PairsFile, load_sts
from sentrep.data.sets.transfer import TRANSFER_NAMES, load_transfer
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError, did_you_mean
from sentrep.evaluation.mteb_adapter import evaluate_tasks, load_task
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import DEFAULT_SUITE, evaluate_sts
from sentrep.evaluation.transfer import evaluate_transfer

SuiteName = Literal["sts", "transfer", "mteb"]


@dataclass(frozen=True)
class SuiteSets:
    """The requested sets of a suite, and their places."""

    sets: Sequence[str | PairsFile] | None = None
    """Names; for similarity also files. None means the suite's default."""
    sts_folder: str | None = None
    """The folder of the SentEval data, with the named sets."""
    columns: Sequence[str | int] | None = None
    """Columns of files of pairs; None looks for the usual names."""


@dataclass(frozen=True)
class Suite:
    """One suite."""

    load: Callable[[Any, SuiteSets], Any]
    """Reads and checks a set."""
    evaluate: Callable[..., list[TaskResult]]
    """Scores them: ``evaluate(encoder, sets, batch_size=..., show_progress_bar=...)``."""
    takes: tuple[str, ...]
    """Fields of `SuiteSets` that the suite uses, beside ``sets``."""
    names: str
    """The allowed values of ``sets``, in words."""
    default: tuple[str, ...] = ()
    """The default sets."""


def load_suite(suite: str, request: SuiteSets) -> list[Any]:
    """Read the sets of a suite.

    Args:
        suite: one of `SUITES`.
        request: the sets.

    Raises:
        InputError: an unknown suite, an option that the suite does not use, no sets, or a set that cannot be read.
    """
    if suite not in SUITES:
        raise InputError(f"unknown suite {suite!r}{did_you_mean(suite, SUITES) or ';'} known are {', '.join(SUITES)}")
    chosen = SUITES[suite]
    for option in ("sts_folder", "columns"):
        if getattr(request, option) is not None and option not in chosen.takes:
            users = ", ".join(name for name, other in SUITES.items() if option in other.takes)
            raise InputError(f"the suite {suite} has no use for {option}, which belongs to {users}; leave it out")
    wanted = request.sets
    if wanted is None:  # SICK-R's published split is not on the hub
        wanted = [name for name in chosen.default if request.sts_folder is not None or name != "sickr"]
    if not wanted:
        raise InputError(f"the suite {suite} needs sets: {chosen.names}")
    sets = [chosen.load(name, request) for name in wanted]
    names = [part.name for part in sets]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{twice[0]} is listed twice, and a report could not tell the two apart; score one at a time")
    return sets


def evaluate_suite(
    suite: str,
    encoder: SentenceEncoder,
    sets: Sequence[Any],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder on the sets that `load_suite` gave.

    Raises:
        InputError: a set has no score, because the encoder has collapsed or gives vectors that are not finite.
    """
    return SUITES[suite].evaluate(encoder, sets, batch_size=batch_size, show_progress_bar=show_progress_bar)


def _load_pairs(name: str | PairsFile, request: SuiteSets) -> ScoredPairs:
    if request.columns is None or isinstance(name, PairsFile) or name.lower() in SET_NAMES:
        return load_sts(name, request.sts_folder)
    return load_sts(PairsFile(name, tuple(request.columns)), request.sts_folder)  # type: ignore[arg-type]


def _load_transfer(name: str, request: SuiteSets) -> LabelledSet:
    if name.lower() in TRANSFER_NAMES and request.sts_folder is None:
        raise InputError(
            f"{name}: where is it? Give the folder of the SentEval data, which contains MR, CR, ... (sts_folder)"
        )
    return load_transfer(name, request.sts_folder or ".")


SUITES = {
    "sts": Suite(
        _load_pairs,
        evaluate_sts,
        ("sts_folder", "columns"),
        "names such as stsb, or files of two sentences and a score",
        DEFAULT_SUITE,
    ),
    "transfer": Suite(_load_transfer, evaluate_transfer, ("sts_folder",), ", ".join(TRANSFER_NAMES), TRANSFER_NAMES),
    "mteb": Suite(
        lambda name, request: load_task(name),
        evaluate_tasks,
        (),
        "tasks of mteb, such as Banking77Classification",
    ),
}
