"""The checks as a table, on the screen and as a file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from sentrep.doctor.outcome import Outcome
from sentrep.errors import InputError
from sentrep.evaluation.report import plain_table
from sentrep.evaluation.report_files import markdown_table, save_text
from sentrep.io.harmless import markdown_text, screen_text
from sentrep.version import __version__

_HEAD = ("", "check", "measured", "bound")
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}


def check_output(path: str) -> Path:
    """The path, if a report can be written in the format of its ending.

    Raises:
        InputError: for another ending.
    """
    if Path(path).suffix not in (".json", ".md"):
        raise InputError(f"{path}: no format for this ending; choose .json or .md")
    return Path(path)


def print_outcomes(outcomes: Sequence[Outcome], console: Console | None = None) -> None:
    """A row for every check, and below what to do about those that failed.

    Args:
        outcomes: of `sentrep.doctor.diagnose`.
        console: where to; None for standard output.
    """
    console = console or Console()
    table = plain_table(*_HEAD)
    for column in table.columns:
        column.justify, column.no_wrap = "left", False
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
    target = check_output(path)
    if target.suffix == ".json":
        content = {"sentrep": __version__, "passed": not failed(outcomes)}
        checks = [dataclasses.asdict(outcome) for outcome in outcomes]
        save_text(target, json.dumps({**content, "checks": checks}, indent=2, ensure_ascii=False) + "\n")
        return
    rows = [[_MARKS[item.passed][0], item.check, item.measured, item.bound] for item in outcomes]
    lines = ["# Doctor", "", *markdown_table([_HEAD, ["---"] * len(_HEAD), *rows]), ""]
    lines += [f"- {markdown_text(outcome.check)}: {markdown_text(outcome.remedy)}" for outcome in failed(outcomes)]
    save_text(target, "\n".join([*lines, "", f"sentrep {__version__}"]) + "\n")
