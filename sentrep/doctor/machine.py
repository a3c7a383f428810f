"""What this machine has: packages, devices, room on the disk, the files of the model."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from typing import Any

import torch
from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from packaging.requirements import Requirement

from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject
from sentrep.io.paths import expanded

_GIB = 2**30
_NEEDED = 3 * _GIB
"""One checkpoint of a model of BERT-base's size, AdamW's two moments included, takes 1.3 GB, and there are two."""
_FILES = {
    "backbone": (
        ("config.json",),
        ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"),
    ),
    "tokenizer": (("tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model"),),
}
"""Files that must be there; of each row, one is enough."""


def versions(subject: Subject) -> Outcome:
    """Every required package, and every optional one that is installed, within the bounds that sentrep declares."""
    remedy = "install with the tested versions: pip install -c constraints.txt -e . (from the repository)"
    try:
        requirements = [Requirement(line) for line in importlib.metadata.requires("sentrep") or []]
    except importlib.metadata.PackageNotFoundError:
        return Outcome("versions", False, "sentrep is not installed as a package", "as declared", remedy)
    wrong = [complaint for requirement in requirements if (complaint := _complaint(requirement))]
    measured = "; ".join(wrong) or f"{len(requirements)} bounds hold, torch {importlib.metadata.version('torch')}"
    return Outcome("versions", not wrong, measured, "as declared", remedy)


def devices(subject: Subject) -> Outcome:
    """Accelerator, number of devices and precision of the configuration exist here."""
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = torch.backends.mps.is_available()
    bf16 = torch.cuda.is_bf16_supported() if cuda else not mps
    names = [torch.cuda.get_device_name(number) for number in range(cuda)] + ["mps"] * mps
    measured = f"{', '.join([*names, f'cpu with {torch.get_num_threads()} threads'])}; bf16 {'yes' if bf16 else 'no'}"
    accelerator, wanted = subject.trainer.get("accelerator", "auto"), subject.trainer.get("devices", "auto")
    there = {"cuda": cuda, "gpu": cuda or int(mps), "mps": int(mps)}.get(str(accelerator), 1)
    wrong = []
    if there == 0:
        wrong.append(f"no accelerator '{accelerator}'")
    elif accelerator in ("cuda", "gpu", "mps") and isinstance(wanted, int) and wanted > there:
        wrong.append(f"{wanted} devices wanted, {there} there")
    if str(subject.trainer.get("precision", "")).startswith("bf16") and not bf16:
        wrong.append("no bf16")
    remedy = "set trainer.accelerator, trainer.devices and trainer.precision to what this machine has"
    return Outcome("devices", not wrong, "; ".join([*wrong, measured]), "what trainer asks for", remedy)


def disk(subject: Subject) -> Outcome:
    """Free space, and permission to write, where logs and tokenised text go."""
    logger = subject.trainer.get("logger")
    logs = logger.get("init_args", {}).get("save_dir") if isinstance(logger, dict) else None
    cache = (
        (subject.data.get("reading") or {}).get("cache_dir") or os.environ.get("SENTREP_CACHE") or "~/.cache/sentrep"
    )
    places = {"logs": logs or subject.trainer.get("default_root_dir") or ".", "cache": cache}
    wrong, found = [], []
    for name, place in places.items():
        folder = expanded(place).absolute()
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        found.append(f"{name} {free / _GIB:.1f} GiB")
        if not os.access(existing, os.W_OK):
            wrong.append(f"{folder} cannot be written")
        elif free < _NEEDED:
            wrong.append(f"{folder} is nearly full")
    remedy = "make room, or set trainer.logger.save_dir and data.reading.cache_dir (or SENTREP_CACHE) to another disk"
    return Outcome("free disk", not wrong, "; ".join([*wrong, *found]), f"≥ {_NEEDED / _GIB:.0f} GiB each", remedy)


def offline(subject: Subject) -> Outcome:
    """Backbone and tokenizer are local, or in the hub's cache; says whether HF_HUB_OFFLINE is set."""
    encoder: dict[str, Any] = subject.model.get("encoder") or {}
    settings: dict[str, Any] = encoder.get("init_args", encoder)
    backbone, revision = settings.get("backbone"), None
    if isinstance(backbone, dict) and "name" in backbone:
        backbone, revision = backbone["name"], backbone.get("revision")
    names = {"backbone": backbone, "tokenizer": settings.get("tokenizer", backbone)}
    found = {what: _place(what, name, revision) for what, name in names.items() if name is not None}
    missing = [f"{what} {names[what]}" for what, place in found.items() if place is None]
    places = [f"{what}: {place or 'not on this machine'}" for what, place in found.items()]
    mode = f"HF_HUB_OFFLINE is {'set' if constants.HF_HUB_OFFLINE else 'not set'}"
    remedy = f"download it once with the network on (hf download NAME), or give a local folder: {', '.join(missing)}"
    return Outcome("works offline", not missing, "; ".join([*places, mode]), "local or in the cache", remedy)


def _complaint(requirement: Requirement) -> str | None:
    optional = requirement.marker is not None and "extra" in str(requirement.marker)
    if requirement.marker is not None and not optional and not requirement.marker.evaluate():
        return None
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return None if optional else f"{requirement.name} is missing"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{requirement.name} {version}, wanted {requirement.specifier}"


def _place(what: str, name: Any, revision: str | None) -> str | None:
    if isinstance(name, dict):
        return "random weights"
    if name == "toy":
        return "in the package"
    if expanded(name).exists():
        return "local"
    try:
        for files in _FILES[what]:
            if not any(isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in files):
                return None
    except HFValidationError:
        return None
    return "in the cache"
