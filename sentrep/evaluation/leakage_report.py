"""What of the evaluation sets is in the training text: on the screen and as a file."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path

import pandas as pd
from rich.console import Console

from sentrep.data.sets.leakage import Leakage
from sentrep.evaluation.sts import display_name
from sentrep.reports.document import Document, Table, Text
from sentrep.reports.frames import as_frame, csv_table, screen_table
from sentrep.reports.saving import save_as
from sentrep.reports.text import screen_text
from sentrep.version import __version__

_COLUMNS = ("set", "sentences", "exact", "near", "share")


def print_leakage(leakage: Leakage, console: Console | None = None) -> None:
    """Print one line per evaluation set, and what the training text repeats.

    Args:
        leakage: of `sentrep.data.sets.leakage.check_leakage`.
        console: where to; None for standard output.
    """
    console = console or Console()
    console.print(screen_table(_shown(leakage)))
    for line in _notes(leakage):
        console.print(screen_text(line), soft_wrap=True, highlight=False)


def write_leakage(leakage: Leakage, path: str | Path, seconds: float) -> None:
    """Write the result to a file; the ending chooses the format.

    Args:
        leakage: what to write.
        path: ``.json`` (everything), ``.md`` or ``.csv``.
        seconds: wall time of the check.

    Raises:
        InputError: for another ending, or a place that cannot be written.
    """
    formats = {".json": _json, ".md": _markdown, ".csv": _csv}
    save_as(path, {ending: functools.partial(form, leakage, seconds) for ending, form in formats.items()})


def _shown(leakage: Leakage) -> pd.DataFrame:
    rows = [
        [display_name(part.name), f"{part.sentences:,}", f"{part.exact:,}", f"{part.near:,}", f"{part.share:.2%}"]
        for part in leakage.sets
    ]
    return as_frame(rows, columns=_COLUMNS)


def _notes(leakage: Leakage) -> list[str]:
    return [
        f"{leakage.train}: {leakage.sentences:,} sentences, of which {leakage.repeated:,} "
        f"({leakage.repeated / leakage.sentences:.2%}) repeat an earlier one.",
        "Distinct evaluation sentences. Exact: equal after Unicode NFKC, case folding and white-space collapse; near: "
        f"of the others, Jaccard similarity of the character trigrams at least {leakage.threshold:g}.",
    ]


def _json(leakage: Leakage, seconds: float) -> str:
    content = {**dataclasses.asdict(leakage), "seconds": seconds, "sentrep": __version__}
    content["sets"] = [{**dataclasses.asdict(part), "share": part.share} for part in leakage.sets]
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _markdown(leakage: Leakage, seconds: float) -> str:
    notes = [*_notes(leakage), f"sentrep {__version__}, {seconds:.1f} s."]
    return Document([Table(_shown(leakage), "Overlap"), *map(Text, notes)]).markdown()


def _csv(leakage: Leakage, seconds: float) -> str:
    rows = [{"set": part.name, **dataclasses.asdict(part), "share": part.share} for part in leakage.sets]
    return csv_table(as_frame(rows, columns=_COLUMNS))
