"""Read checkpoint files of strangers without running code, and detect damage."""

from __future__ import annotations

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

FORMAT = 1
"""Number of the layout of a checkpoint; a file with another one is refused."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Content of a checkpoint of sentrep, read without running any code from it, after `verify`.

    Raises:
        InputError: for a file that is damaged, no checkpoint, or not written by this version of sentrep.
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
    """Refuse the content of another program, or of another format.

    Raises:
        InputError: names the file, and the version that wrote it.
    """
    payload = checkpoint.get(PAYLOAD_KEY) if isinstance(checkpoint, dict) else None
    if not isinstance(payload, dict) or not isinstance(checkpoint.get("state_dict"), dict):
        raise InputError(f"{path}: a checkpoint, but not one of sentrep; train one with `sentrep fit`")
    if payload.get("format") != FORMAT or not {"files", "training"} <= payload.keys():
        raise InputError(
            f"{path}: was written by sentrep {payload.get('version')} in another format than this version reads "
            f"({payload.get('format')}, not {FORMAT}); use that version, or train anew"
        )


def verify(path: str | Path) -> None:
    """Read a checkpoint file once and compare its checksums: a cut or altered file is recognised.

    ``torch.save`` stores a CRC-32 of every record and ``torch.load`` does not look at it.

    Raises:
        InputError: the file is missing, cannot be read, is cut off, or its content has changed.
    """
    check_plain(path)
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except Exception as error:  # a changed byte in the directory gives one of half a dozen types
        damaged = str(error) or type(error).__name__
    if damaged is not None:
        raise InputError(f"{path}: is no checkpoint, damaged or cut off ({damaged}); use another checkpoint")


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
