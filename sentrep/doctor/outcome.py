"""What the checks found, as a table on the screen and as a file."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence

import pandas as pd
from rich.console import Console

from sentrep.reports.document import Document, Heading, Table, Text
from sentrep.reports.frames import as_frame, screen_table
from sentrep.reports.saving import save_as
from sentrep.reports.text import screen_text
from sentrep.version import __version__

_MARKS = {True: "✓", False: "✗", None: "–"}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A row of the doctor's table."""

    check: str
    """What was checked, in a few words."""
    passed: bool | None
    """None: it does not apply to this configuration, and ``measured`` says why."""
    measured: str
    """The difference, or what was found."""
    bound: str
    """What it may be at most, or has to be."""
    remedy: str
    """What to do where it failed."""

    @classmethod
    def of_difference(cls, check: str, difference: float, bound: float, remedy: str) -> Outcome:
        """Passed when the difference is within the bound; not when it is no number."""
        return cls(check, difference <= bound, f"{difference:.1e}", f"≤ {bound:.0e}" if bound else "0", remedy)


def print_outcomes(outcomes: Sequence[Outcome], console: Console | None = None) -> None:
    """A row for every check, and below what to do about those that failed.

    Args:
        outcomes: of `sentrep.doctor.diagnose`.
        console: where to; None for standard output.
    """
    console = console or Console()
    console.print(screen_table(_table(outcomes)))
    for outcome in failed(outcomes):
        line = f"[red]{screen_text(outcome.check)}[/]: {screen_text(outcome.remedy)}"
        console.print(line, soft_wrap=True, highlight=False)


def failed(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that did not pass."""
    return [outcome for outcome in outcomes if outcome.passed is False]


def write_outcomes(outcomes: Sequence[Outcome], path: str) -> None:
    """Write them to a file, ``.json`` or ``.md``.

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    formats = {".json": _json, ".md": _markdown}
    save_as(path, {ending: functools.partial(form, outcomes) for ending, form in formats.items()})


def _json(outcomes: Sequence[Outcome]) -> str:
    checks = [dataclasses.asdict(outcome) for outcome in outcomes]
    content = {"sentrep": __version__, "passed": not failed(outcomes), "checks": checks}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _markdown(outcomes: Sequence[Outcome]) -> str:
    notes = [*(f"{one.check}: {one.remedy}" for one in failed(outcomes)), f"sentrep {__version__}"]
    return Document([Heading("Doctor", level=1), Table(_table(outcomes), "Checks"), *map(Text, notes)]).markdown()


def _table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    rows = [[_MARKS[one.passed], one.check, one.measured, one.bound] for one in outcomes]
    return as_frame(rows, columns=["", "check", "measured", "bound"])
