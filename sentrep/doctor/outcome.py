"""What the checks found, as a table on the screen and as a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from rich.console import Console

from sentrep.evaluation.report import markdown_table, plain_table, save_as
from sentrep.io.harmless import markdown_text, screen_text
from sentrep.version import __version__

_HEAD = ("", "check", "measured", "bound")
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}


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
    table = plain_table(*_HEAD)
    for outcome in outcomes:
        mark, colour = _MARKS[outcome.passed]
        cells = (outcome.check, outcome.measured, outcome.bound)
        table.add_row(f"[{colour}]{mark}[/]", *map(screen_text, cells))
    console.print(table)
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
    save_as(path, {".json": _json, ".md": _markdown}, outcomes)


def _json(outcomes: Sequence[Outcome]) -> str:
    checks = [dataclasses.asdict(outcome) for outcome in outcomes]
    content = {"sentrep": __version__, "passed": not failed(outcomes), "checks": checks}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _markdown(outcomes: Sequence[Outcome]) -> str:
    rows = [[_MARKS[item.passed][0], item.check, item.measured, item.bound] for item in outcomes]
    lines = ["# Doctor", "", *markdown_table(_HEAD, rows), ""]
    lines += [f"- {markdown_text(outcome.check)}: {markdown_text(outcome.remedy)}" for outcome in failed(outcomes)]
    return "\n".join([*lines, "", f"sentrep {__version__}"]) + "\n"
