"""Texts with a label each: SentEval's transfer tasks."""

from __future__ import annotations

from dataclasses import dataclass

from sentrep.data.fingerprints import hash_columns


@dataclass
class LabelledTexts:
    """N texts, or N pairs of texts, each with a label: one split of a set."""

    texts: list[str]
    """N texts."""
    labels: list[str]
    """N labels."""
    second: list[str] | None = None
    """N second texts, where pairs are labelled."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass
class LabelledSet:
    """A transfer task, by split."""

    name: str
    splits: dict[str, LabelledTexts]
    """``train`` and ``test``, and ``dev`` if the set has it; ``all`` for a set without splits."""

    @property
    def fingerprint(self) -> str:
        """Hash of the texts and labels of every split."""
        parts = self.splits.items()
        return hash_columns(*(c for name, part in parts for c in ([name], part.texts, part.second or [], part.labels)))
