"""The results of every suite: one per set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskResult:
    """Scores of one set."""

    name: str
    """The set's name."""
    protocol: str
    """Name of the scoring protocol."""
    counts: dict[str, int]
    """Numbers of items by kind: ``{"pairs": 1379}``, ``{"train": 5452, "test": 500}``; the scored kind is last.
    Empty for mteb's tasks."""
    scores: dict[str, float]
    """By metric, × 100; the first is the set's main score."""
    dataset: str
    """Fingerprint of the data: equal fingerprints mean equal data."""

    @property
    def main_score(self) -> float:
        """The first of the scores."""
        return next(iter(self.scores.values()))
