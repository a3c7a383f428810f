"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
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
