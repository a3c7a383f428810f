"""Which questions are kept: options of the command line, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from sentrep import checks


@dataclass(frozen=True)
class RoundTrip:
    """Which questions are kept.

    Raises:
        InputError: a number out of range.
    """

    encoder: str | None = None
    """model that looks for every question's passage among all others: a checkpoint, a folder or a hub id. Without one
    no question is left out for that."""
    top: int = 10
    """the passage must be among so many that the encoder finds."""
    batch_size: int = 64
    """texts of average length that it encodes at a time."""

    def __post_init__(self) -> None:
        checks.whole("round_trip", 1, top=self.top, batch_size=self.batch_size)
