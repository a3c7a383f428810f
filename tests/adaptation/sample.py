"""Adaptations to report, of made-up numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sentrep.adaptation.outcome import Adaptation
from sentrep.reports.document import Change
from sentrep.reports.frames import as_frame

NOTHING: dict[str, Any] = {
    **{"advice": (), "tasks": pd.DataFrame(), "curve": (), "interpolation": (), "lexical": (), "neighbours": ()},
    **{"seconds": {}, "settings": {}, "folder": None},
}
"""An adaptation without any of its optional parts."""


def made_up(text: str = "a text", **changes: Any) -> Adaptation:
    """Every part is there; ``text`` stands wherever a text can."""
    better = {"task": text, "queries": 500, "texts": 5000, "shared words": 0.31, "BM25": 71.25, "verdict": "better"}
    worse = {"task": "sentence to rest", "queries": 400, "texts": 5000, "shared words": 0.2, "verdict": "worse"}
    for task, *scores in ((better, 80.0, 82.5, 2.5), (worse, 70.0, 60.0, -10.0)):
        for side, score in zip(("before", "after", "difference"), scores, strict=True):
            task |= {side: score, f"{side} low": score - 1, f"{side} high": score + 1}
    parts: dict[str, Any] = {
        "verdict": "better",
        "sentence": f"Better: {text}",
        "advice": ("Nothing is sure.", f"Try {text}."),
        "backbone": text,
        "text": text,
        "folder": text,
        "documents": 1234,
        "passages": 5678,
        "pairs": 999,
        "seen": 640,
        "tasks": as_frame([better, worse]),
        "curve": tuple(
            {"step": step, "minutes": step / 60, "proxy": 75 + step / 50, f"proxy/{text}": 80.0, "proxy/b": 70.0}
            for step in (0, 50, 100)
        ),
        "interpolation": ((0.0, 75.0), (0.5, 77.5), (1.0, 77.0)),
        "lexical": ((0.0, 77.5), (0.1, 78.25)),
        "neighbours": tuple(Change(f"{text} {n}", ("old one", text, "c"), (text, "new one", "c")) for n in range(3)),
        "seconds": {"reading": 2.5, text: 75.0},
        "settings": {"objective": text, text: "x"},
    }
    return Adaptation(**parts | changes)
