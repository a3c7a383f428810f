"""The report of evaluation sentences in the training text, on the screen and as a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from sentrep.data.sets.leakage import Leakage, Overlap
from sentrep.evaluation.sts import display_name
from sentrep.io.files import write_text
from sentrep.io.paths import writing
from sentrep.reports.frames import as_frame, csv_table
from sentrep.reports.report import Report
from sentrep.version import __version__

_LISTED = ("set", "kind", "jaccard", "evaluation sentence", "training sentence", "training row")
_COLUMNS = ("set", "sentences", "exact", "near", "share")


def leakage_report(leakage: Leakage, seconds: float) -> Report:
    """One line per evaluation set, and the repeated sentences.

    Args:
        leakage: of `sentrep.data.sets.leakage.check_leakage`.
        seconds: wall time of the check.
    """
    shown = [
        [display_name(part.name), f"{part.sentences:,}", f"{part.exact:,}", f"{part.near:,}", f"{part.share:.2%}"]
        for part in leakage.sets
    ]
    sets = [{**dataclasses.asdict(part), "share": part.share} for part in leakage.sets]
    return Report(
        as_frame(shown, _COLUMNS),
        notes=[
            f"{leakage.train}: {leakage.sentences:,} sentences, of which {leakage.repeated:,} "
            f"({leakage.repeated / leakage.sentences:.2%}) repeat an earlier one.",
            "Distinct evaluation sentences. Exact: equal after Unicode NFKC, case folding and white-space collapse; "
            f"near: of the others, Jaccard similarity of the character trigrams at least {leakage.threshold:g}.",
        ],
        about=[f"sentrep {__version__}, {seconds:.1f} s."],
        rows=as_frame([{**part, "set": part["name"]} for part in sets], _COLUMNS),
        record={**dataclasses.asdict(leakage), "sets": sets, "seconds": seconds, "sentrep": __version__},
    )


def write_overlaps(overlaps: Iterable[Overlap], path: str | Path) -> None:
    """Write overlapping sentences to a csv file, a row for each set; no cell is a formula.

    Raises:
        InputError: the file cannot be written.
    """
    rows = [
        (name, found.kind, f"{found.jaccard:.4f}", found.evaluation, found.training, found.row)
        for found in overlaps
        for name in found.sets
    ]
    with writing(path):
        write_text(path, csv_table(as_frame(rows, columns=_LISTED)))
