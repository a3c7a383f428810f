"""Facts about a checkpoint's training, for the model card."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sentrep.io.checkpoint_file import PAYLOAD_KEY
from sentrep.io.paths import expanded

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)


@dataclass(frozen=True)
class Trained:
    """How an encoder came about; everything in it is text or number, from wherever the checkpoint comes."""

    base: str | None = None
    """Hub id of the start model; None for a local model, whose path is private."""
    objectives: dict[str, str] = field(default_factory=dict)
    """Name and class of each."""
    data: str | None = None
    """Fingerprint of the training text."""
    step: int | None = None
    scores: dict[str, float] = field(default_factory=dict)
    """Spearman × 100 of each development set at this step."""

    @classmethod
    def of(cls, checkpoint: dict[str, Any]) -> Trained:
        """Read the facts from a checkpoint; values in another form than `sentrep fit` writes are skipped."""
        payload, step = checkpoint[PAYLOAD_KEY], checkpoint.get("global_step")
        base, data = payload.get("base"), payload.get("data")
        objectives: dict[str, str] = {}
        with suppress(AttributeError, KeyError, TypeError):
            for name, objective in checkpoint["hyper_parameters"]["objectives"].items():
                if objective is not None:
                    objectives[str(name)] = objective["class_path"].rpartition(".")[2]
        return cls(
            base if isinstance(base, str) and _HUB_ID.fullmatch(base) else None,
            objectives,
            data if isinstance(data, str) else None,
            step if isinstance(step, int) else None,
            _scores(checkpoint.get("callbacks"), step),
        )


def hub_name(backbone: Any) -> str | None:
    """The backbone's Hub id; None for a configuration or a local path."""
    backbone = backbone.get("name") if isinstance(backbone, dict) else backbone
    if not isinstance(backbone, str) or not _HUB_ID.fullmatch(backbone) or os.path.lexists(expanded(backbone)):
        return None
    return backbone


def _scores(callbacks: Any, step: Any) -> dict[str, float]:
    """Scores of the sets, ``val/NAME``, that the run's report has at the step."""
    found: dict[str, float] = {}
    for state in callbacks.values() if isinstance(callbacks, dict) else ():
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            for name, course in state["history"].items():
                if f"{name}/alignment" in state["history"]:  # which sets have beside theirs
                    found[name.removeprefix("val/")] = float(dict(course)[step])
    return found
