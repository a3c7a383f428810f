"""What an adaptation has come to: the numbers that the command prints and the report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Estimate:
    """A score x 100 with its 95 % interval (bootstrap over documents)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TaskOutcome:
    """One held-out retrieval task, before and after."""

    name: str
    """For example ``title to text``."""
    queries: int
    candidates: int
    overlap: float
    """Share of the query's words that stand in its answer."""
    bm25: float | None
    start: Estimate
    adapted: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Neighbours:
    """The nearest passages of one sentence, before and after."""

    sentence: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Adaptation:
    """All of it."""

    verdict: Literal["better", "not better", "cannot be told"]
    sentence: str
    """The verdict in one sentence."""
    backbone: str
    """What was adapted."""
    text: str
    """To what."""
    folder: str | None
    """Where it was written; None where nothing was exported."""
    documents: int
    passages: int
    pairs: int
    """What there was to train on."""
    seen: int
    """Pairs that training has come to, again ones included; of a text without structure sentences."""
    tasks: tuple[TaskOutcome, ...]
    curve: tuple[dict[str, float], ...]
    """Rows: step, minutes, proxy, and proxy/<task>."""
    interpolation: tuple[tuple[float, float], ...]
    """(weight of the trained end, proxy)."""
    lexical: tuple[tuple[float, float], ...]
    """(weight of matching words, proxy), at the best of these."""
    neighbours: tuple[Neighbours, ...]
    seconds: dict[str, float]
    """Part of the run -> seconds."""
    settings: dict[str, str]
    """What was trained on what: shown as a table."""
