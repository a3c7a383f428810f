"""Sentence pairs with a graded similarity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ScoredPairs:
    """Sentence pairs with a graded similarity: one evaluation set, for example STS-B dev."""

    name: str
    """The set's name as logged and printed, for example ``stsb-dev``."""
    first: list[str]
    """P sentences."""
    second: list[str]
    """P sentences."""
    scores: list[float]
    """P gold similarities; only their order matters to Spearman."""
    protocol: str = "pairs file"
    """Where split and pooling of sub-sets come from, for example ``SentEval (all)``."""

    def __len__(self) -> int:
        return len(self.scores)
