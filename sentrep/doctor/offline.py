"""Whether a run could start without the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError

from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject


def check(subject: Subject) -> Outcome:
    """Backbone and tokenizer are local, or in the hub's cache; says whether HF_HUB_OFFLINE is set."""
    encoder: dict[str, Any] = subject.model.get("encoder") or {}
    settings: dict[str, Any] = encoder.get("init_args", encoder)
    revision = settings.get("revision")
    names = [("backbone", settings.get("backbone")), ("tokenizer", settings.get("tokenizer"))]
    found = {what: _place(name, revision) for what, name in names if name is not None}
    missing = [f"{what} {name}" for what, name in names if what in found and found[what] is None]
    mode = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "HF_HUB_OFFLINE is not set"
    places = [f"{what}: {place or 'not on this machine'}" for what, place in found.items()]
    return Outcome(
        "works offline",
        not missing,
        "; ".join([*places, mode]),
        "local or in the cache",
        f"download it once with the network on (hf download NAME), or give a local folder: {', '.join(missing)}",
    )


def _place(name: Any, revision: str | None) -> str | None:
    if isinstance(name, dict):
        return "random weights"
    if name == "toy":
        return "in the package"
    if Path(name).expanduser().exists():
        return "local"
    try:
        known = try_to_load_from_cache(name, "config.json", revision=revision)
        known = known or try_to_load_from_cache(name, "tokenizer_config.json", revision=revision)
    except HFValidationError:
        return None
    return "in the cache" if isinstance(known, str) else None
