"""Adaptations to report, of made-up numbers."""

from __future__ import annotations

from typing import Any

from sentrep.adaptation.outcome import Adaptation, Estimate, Neighbours, TaskOutcome

NOTHING: dict[str, Any] = {
    **{"tasks": (), "curve": (), "interpolation": (), "lexical": (), "neighbours": ()},
    **{"seconds": {}, "settings": {}, "folder": None},
}
"""An adaptation without any of its optional parts."""


def made_up(text: str = "a text", **changes: Any) -> Adaptation:
    """Every part is there; ``text`` stands wherever a text can."""
    task = TaskOutcome(text, 500, 5000, 0.31, 71.25, *(Estimate(v, v - 1, v + 1) for v in (80.0, 82.5, 2.5)))
    worse = TaskOutcome("sentence to rest", 400, 5000, 0.2, None, *(Estimate(v, v - 1, v + 1) for v in (70, 60, -10)))
    parts: dict[str, Any] = {
        "verdict": "better",
        "sentence": f"Better: {text}",
        "backbone": text,
        "text": text,
        "folder": text,
        "documents": 1234,
        "passages": 5678,
        "pairs": 999,
        "seen": 640,
        "tasks": (task, worse),
        "curve": tuple(
            {"step": step, "minutes": step / 60, "proxy": 75 + step / 50, f"proxy/{text}": 80.0, "proxy/b": 70.0}
            for step in (0, 50, 100)
        ),
        "interpolation": ((0.0, 75.0), (0.5, 77.5), (1.0, 77.0)),
        "lexical": ((0.0, 77.5), (0.1, 78.25)),
        "neighbours": tuple(
            Neighbours(f"{text} {n}", ("old one", text, "c"), (text, "new one", "c")) for n in range(3)
        ),
        "seconds": {"reading": 2.5, text: 75.0},
        "settings": {"objective": text, text: "x"},
    }
    return Adaptation(**parts | changes)
