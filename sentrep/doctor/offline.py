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
    backbone = settings.get("backbone")
    names = [("backbone", backbone), ("tokenizer", settings.get("tokenizer", backbone))]
    found = {what: _place(what, name, revision) for what, name in names if name is not None}
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


def _place(what: str, name: Any, revision: str | None) -> str | None:
    if isinstance(name, dict):
        return "random weights"
    if name == "toy":
        return "in the package"
    if Path(name).expanduser().exists():
        return "local"
    needed = _BACKBONE if what == "backbone" else _TOKENIZER
    try:
        complete = all(any(_cached(name, file, revision) for file in files) for files in needed)
    except HFValidationError:
        return None
    return "in the cache" if complete else None


def _cached(name: str, file: str, revision: str | None) -> bool:
    return isinstance(try_to_load_from_cache(name, file, revision=revision), str)


_BACKBONE = (
    ("config.json",),
    ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"),
)
_TOKENIZER = (("tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model"),)
"""Files that must be there; of each row, one is enough."""
