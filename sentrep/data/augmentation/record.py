"""What a file of augmented sentences says about how it was made: settings, fingerprint, counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sentrep.errors import InputError

METADATA_KEY = b"sentrep"
"""Key in the schema of the parquet file under which the record lies, as JSON."""


def read_record(path: str | Path) -> dict[str, Any]:
    """The record of a finished file: ``settings``, their ``fingerprint``, ``notes``, and the counts of the command.

    Raises:
        InputError: the file is not one that `PartStore` wrote.
    """
    try:
        record = json.loads((pq.read_schema(path).metadata or {})[METADATA_KEY])
        record["settings"], record["fingerprint"]
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} exists and is not the work of this command; move it away or name another output"
        ) from None
    return record


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Hash of the settings.

    Examples:
        >>> fingerprint({"beams": 4, "seed": 1}) == fingerprint({"seed": 1, "beams": 4}) != fingerprint({"beams": 4})
        True
    """
    return hashlib.blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=16).hexdigest()


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The settings that differ, in words; empty when none does.

    Examples:
        >>> differences({"beams": 4, "seed": 1}, {"beams": 1, "seed": 1})
        'beams was 4 and is 1'
    """
    keys = [key for key in {**saved, **now} if saved.get(key) != now.get(key)]
    return ", ".join(f"{key} was {saved.get(key)} and is {now.get(key)}" for key in keys)
