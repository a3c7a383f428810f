"""The suites of ``sentrep evaluate``: reading and scoring their sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from sentrep.data.sets.sts import SET_NAMES, PairsFile, load_sts
from sentrep.data.sets.transfer import TRANSFER_NAMES, load_transfer
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.mteb_adapter import evaluate_tasks, load_task
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.sts import DEFAULT_SUITE, evaluate_sts
from sentrep.evaluation.transfer import evaluate_transfer

SuiteName = Literal["sts", "transfer", "mteb"]
_EVALUATE: Mapping[SuiteName, Callable[..., list[TaskResult]]] = {
    "sts": evaluate_sts,
    "transfer": evaluate_transfer,
    "mteb": evaluate_tasks,
}


def load_suite(
    suite: SuiteName,
    sets: Sequence[str | PairsFile] | None = None,
    sts_folder: str | None = None,
    columns: Sequence[str | int] | None = None,
) -> list[Any]:
    """Read the sets of a suite.

    Args:
        suite: ``sts``, ``transfer`` or ``mteb``.
        sets: their names; for ``sts`` also files. None means the suite's default.
        sts_folder: the folder of the SentEval data, with the named sets.
        columns: of files of pairs; None looks for the usual names.

    Raises:
        InputError: no sets, a set twice, columns for another suite than ``sts``, or a set that cannot be read.
    """
    if columns is not None and suite != "sts":
        raise InputError(f"the suite {suite} has no use for columns, which belong to sts; leave them out")
    loaded: dict[str, Any] = {}
    for name in _default(suite, sts_folder) if sets is None else sets:
        if columns is not None and not isinstance(name, PairsFile) and name.lower() not in SET_NAMES:
            name = PairsFile(name, tuple(columns))  # type: ignore[arg-type]
        one = _load(suite, name, sts_folder)
        key = one.metadata.name if suite == "mteb" else one.name
        if key in loaded:
            raise InputError(f"{key} is listed twice, and a report could not tell the two apart; score one at a time")
        loaded[key] = one
    if not loaded:
        raise InputError(f"the suite {suite} needs sets; name them")
    return list(loaded.values())


def _load(suite: SuiteName, name: str | PairsFile, sts_folder: str | None) -> Any:
    if suite == "sts":
        return load_sts(name, sts_folder)
    return load_task(str(name)) if suite == "mteb" else load_transfer(str(name), sts_folder or ".")


def evaluate_suite(
    suite: SuiteName,
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
    return _EVALUATE[suite](encoder, sets, batch_size=batch_size, show_progress_bar=show_progress_bar)


def _default(suite: SuiteName, sts_folder: str | None) -> Sequence[str]:
    if suite == "sts":  # SICK-R's published split is not on the Hub
        return [name for name in DEFAULT_SUITE if sts_folder is not None or name != "sickr"]
    return TRANSFER_NAMES if suite == "transfer" else ()
