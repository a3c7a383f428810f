"""All checks, one after the other."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from sentrep.doctor import grad_cache, machine, training
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject

CHECKS: dict[str, Callable[[Subject], Outcome]] = {
    "versions": machine.versions,
    "devices": machine.devices,
    "disk": machine.disk,
    "gather": training.gather,
    "noise": training.noise,
    "grad_cache": grad_cache.check,
    "accumulation": training.accumulation,
    "resume": training.resume,
    "precision": training.precision,
    "offline": machine.offline,  # the last: the others may have filled the hub's cache
}
"""Name: the check, in the order of the table."""


def diagnose(subject: Subject, note: Callable[[str], None] = lambda name: None) -> list[Outcome]:
    """Every check's outcome; one that cannot be carried out has failed, with its reason as what was found.

    Args:
        subject: what is examined.
        note: told the name of each check before it runs.
    """
    outcomes = []
    with _silence():
        for name, check in CHECKS.items():
            note(name)
            try:
                outcomes.append(check(subject))
            except Exception as error:  # whatever breaks here would break the training
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                outcomes.append(Outcome(name, False, f"{type(error).__name__}: {reason}", "runs", "mend what it names"))
    return outcomes


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings and reports of the short runs, and afterwards the random stream and threads of before."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "sentrep")]
    levels = [logger.level for logger in loggers]
    filters, threads = os.environ.get("PYTHONWARNINGS"), torch.get_num_threads()
    os.environ["PYTHONWARNINGS"] = "ignore"  # of the processes started here
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.random.fork_rng():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        torch.set_num_threads(threads)
        os.environ.pop("PYTHONWARNINGS")
        if filters is not None:
            os.environ["PYTHONWARNINGS"] = filters
