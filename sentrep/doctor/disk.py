"""Room for checkpoints and caches."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from sentrep.data.text.cache import default_cache_dir
from sentrep.doctor.outcome import Outcome
from sentrep.doctor.subject import Subject

GIB = 2**30
NEEDED = 3 * GIB
"""One checkpoint of a model of BERT-base's size, AdamW's two moments included, takes 1.3 GB, and there are two."""


def check(subject: Subject) -> Outcome:
    """Free space, and permission to write, where logs and tokenised text go."""
    places = {"logs": _log_folder(subject.trainer), "cache": _cache_folder(subject.data.get("reading"))}
    wrong, found = [], []
    for name, folder in places.items():
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        found.append(f"{name} {free / GIB:.1f} GiB")
        if not os.access(existing, os.W_OK):
            wrong.append(f"{folder} cannot be written")
        elif free < NEEDED:
            wrong.append(f"{folder} is nearly full")
    return Outcome(
        "free disk",
        not wrong,
        "; ".join([*wrong, *found]),
        f"≥ {NEEDED / GIB:.0f} GiB each",
        "make room, or set trainer.logger.save_dir and data.reading.cache_dir (or SENTREP_CACHE) to another disk",
    )


def _log_folder(trainer: dict[str, Any]) -> Path:
    logger = trainer.get("logger")
    folder = logger.get("init_args", {}).get("save_dir") if isinstance(logger, dict) else None
    return Path(folder or trainer.get("default_root_dir") or ".").expanduser().absolute()


def _cache_folder(reading: dict[str, Any] | None) -> Path:
    folder = (reading or {}).get("cache_dir")
    return (Path(folder).expanduser() if folder else default_cache_dir()).absolute()
