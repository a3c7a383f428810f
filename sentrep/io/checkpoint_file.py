"""Read checkpoint files of strangers without running code, and detect damage."""

from __future__ import annotations

import errno
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sentrep.errors import InputError
from sentrep.io.paths import check_plain

PAYLOAD_KEY = "sentrep"
"""Key of a checkpoint under which the small files of the encoder's folder lie, as text, and its training's settings."""

_OF_CONTENT = (errno.EINVAL, errno.EOVERFLOW)
"""The system's errors for impossible offsets in a damaged file; other numbers are errors of the system itself."""

FORMAT = 1
"""Number of the layout of a checkpoint; a file with another one is refused."""

_NEEDED = ("files", "training")
"""The required keys of a payload."""


class DamagedError(InputError):
    """The content of a file differs from the written content."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Content of a checkpoint of sentrep, read without running any code from it, after `verify`.

    Raises:
        DamagedError: the content differs from the written content.
        InputError: for a file that is no checkpoint, or was not written by this version of sentrep.
    """
    verify(path)
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types
        raise InputError(
            f"{path}: is no checkpoint, or holds objects that are not loaded because that would run code "
            f"({type(error).__name__}); use another checkpoint"
        ) from error
    check_payload(checkpoint, path)
    return checkpoint


def check_payload(checkpoint: Any, path: object) -> None:
    """Refuse a content that lacks a part of an encoder.

    Raises:
        InputError: it is of another program or another format, or a part is missing.
    """
    payload = checkpoint.get(PAYLOAD_KEY) if isinstance(checkpoint, dict) else None
    if not isinstance(payload, dict) or not isinstance(checkpoint.get("state_dict"), dict):
        raise InputError(f"{path}: a checkpoint, but not one of sentrep; train one with `sentrep fit`")
    if payload.get("format") != FORMAT:
        raise InputError(
            f"{path}: was written by sentrep {payload.get('version')} in another format than this version reads "
            f"({payload.get('format')}, not {FORMAT}); use that version, or train anew"
        )
    if missing := [part for part in _NEEDED if part not in payload]:
        raise InputError(f"{path}: has no {missing[0]} in it; use another checkpoint")


def verify(path: str | Path) -> None:
    """Read a checkpoint file once and compare its checksums: a cut or altered file is recognised.

    ``torch.save`` stores a CRC-32 of every record and ``torch.load`` does not look at it.

    Raises:
        DamagedError: the file is cut off, or its content has changed.
        InputError: the file is missing, or cannot be read.
    """
    check_plain(path)
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except Exception as error:  # a changed byte in the directory gives one of half a dozen types
        if isinstance(error, OSError) and error.errno not in (None, *_OF_CONTENT):
            raise InputError(f"{path}: cannot be read ({error.strerror}); fix this, or use another file") from error
        damaged = type(error).__name__
    if damaged is not None:
        raise DamagedError(f"{path}: is no checkpoint, damaged or cut off ({damaged}); use another checkpoint")


def trained_head(checkpoint: dict[str, Any]) -> dict[str, Tensor] | None:
    """The masked-LM head that the objectives were trained with, without the word embeddings that it shares.

    Args:
        checkpoint: of `read_checkpoint`; its payload says where in the weights the head lies.
    """
    state, place = checkpoint["state_dict"], checkpoint[PAYLOAD_KEY].get("lm_head")
    if not isinstance(place, str):
        return None
    shared = {tensor.data_ptr() for key, tensor in state.items() if key.startswith("encoder.")}
    found = below(f"{place.rstrip('.')}.", state)
    return {key: tensor for key, tensor in found.items() if tensor.data_ptr() not in shared} or None


def below(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """The weights whose names begin so, by the rest of their names."""
    return {key.removeprefix(prefix): weight for key, weight in state.items() if key.startswith(prefix)}
