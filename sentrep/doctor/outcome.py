"""The outcomes of the checks, as a table on the screen and as a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sentrep.reports.frames import as_frame
from sentrep.reports.report import Report
from sentrep.version import __version__

_MARKS = {True: "✓", False: "✗", None: "–"}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A row of the doctor's table."""

    check: str
    """The check, in a few words."""
    passed: bool | None
    """None: it does not apply to this configuration, and ``measured`` says why."""
    measured: str
    """The difference, or the finding."""
    bound: str
    """The bound, or the expected finding."""
    remedy: str
    """What to do where it failed."""

    @classmethod
    def of_difference(cls, check: str, difference: float, bound: float, remedy: str) -> Outcome:
        """Passed if the difference is within the bound; a NaN fails."""
        return cls(check, difference <= bound, f"{difference:.1e}", f"≤ {bound:.0e}" if bound else "0", remedy)


def failed(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that did not pass."""
    return [outcome for outcome in outcomes if outcome.passed is False]


def report(outcomes: Sequence[Outcome]) -> Report:
    """A row for every check, and below what to do about those that failed.

    Args:
        outcomes: of `sentrep.doctor.diagnose`.
    """
    rows = [[_MARKS[one.passed], one.check, one.measured, one.bound] for one in outcomes]
    checks = [dataclasses.asdict(outcome) for outcome in outcomes]
    return Report(
        as_frame(rows, ["", "check", "measured", "bound"]),
        title="Doctor",
        notes=[f"{one.check}: {one.remedy}" for one in failed(outcomes)],
        about=[f"sentrep {__version__}"],
        rows=as_frame(checks),
        record={"sentrep": __version__, "passed": not failed(outcomes), "checks": checks},
    )
