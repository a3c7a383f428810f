"""What a checkpoint tells of its training, for the model card."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from sentrep.io.checkpoint_file import PAYLOAD_KEY
from sentrep.io.paths import expanded

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)


@dataclass(frozen=True)
class Trained:
    """How an encoder came about; everything in it is text or number, from wherever the checkpoint comes."""

    base: str | None = None
    """Hub id of the model that the training began with; None for a local one, whose place is nobody's business."""
    objectives: dict[str, str] = field(default_factory=dict)
    """By name, the class."""
    data: str | None = None
    """Fingerprint of the training text."""
    step: int | None = None
    scores: dict[str, float] = field(default_factory=dict)
    """By development set, Spearman × 100 at this step."""

    @classmethod
    def of(cls, checkpoint: dict[str, Any]) -> Trained:
        """From the content of a checkpoint; what is not there, or of another type than it should be, is left out."""
        payload, settings = checkpoint[PAYLOAD_KEY], checkpoint.get("hyper_parameters")
        objectives = settings.get("objectives") if isinstance(settings, dict) else None
        classes = {name: _class(value) for name, value in objectives.items()} if isinstance(objectives, dict) else {}
        base, data, step = payload.get("base"), payload.get("data"), checkpoint.get("global_step")
        return cls(
            base if isinstance(base, str) and _HUB_ID.fullmatch(base) else None,
            {str(name): found for name, found in classes.items() if found},
            data if isinstance(data, str) and data else None,
            step if isinstance(step, int) else None,
            _scores(checkpoint.get("callbacks"), step),
        )


def hub_name(backbone: Any) -> str | None:
    """The backbone where it is from a hub: no configuration, and nothing that lies on this machine."""
    backbone = backbone.get("name") if isinstance(backbone, dict) else backbone
    if not isinstance(backbone, str) or not _HUB_ID.fullmatch(backbone) or os.path.lexists(expanded(backbone)):
        return None
    return backbone


def _class(objective: Any) -> str:
    name = objective.get("class_path") if isinstance(objective, dict) else objective
    return name.rsplit(".", 1)[-1] if isinstance(name, str) else ""


def _scores(callbacks: Any, step: Any) -> dict[str, float]:
    """Of the sets, ``val/NAME``, as the run's report had them at the step."""
    states = callbacks.values() if isinstance(callbacks, dict) else ()
    kept = [state.get("history") for state in states if isinstance(state, dict)]
    found: dict[str, float] = {}
    for history in (one for one in kept if isinstance(one, dict)):
        for name, course in history.items():
            one = str(name).removeprefix("val/")
            if f"val/{one}/alignment" not in history or not isinstance(course, list):  # which sets have beside theirs
                continue
            value = next((point[1] for point in course if isinstance(point, list) and point[:1] == [step]), None)
            if isinstance(value, float):
                found[one] = value
    return found
