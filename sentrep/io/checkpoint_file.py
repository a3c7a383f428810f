"""Checkpoint files that come from anywhere: read without running their code, their checksums compared."""

from __future__ import annotations

import errno
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint

from sentrep.errors import InputError

PAYLOAD_KEY = "sentrep"
"""Key of a checkpoint under which the encoder's architecture, tokenizer and settings lie."""

_PAYLOAD = ("architecture", "tokenizer", "settings")

_OF_CONTENT = (errno.EINVAL, errno.EOVERFLOW)
"""What the system answers to the impossible offsets of a damaged file; other numbers are its own trouble."""


class DamagedError(InputError):
    """A file was read, and its content is not what was written."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Content of a checkpoint file, read without running any code from it.

    Raises:
        InputError: for a file that is no checkpoint, is damaged, or was not written by sentrep.
    """
    if not Path(path).is_file():
        raise InputError(f"{path}: no such checkpoint file; check the path")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for damaged files
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{path}: cannot be read ({error.strerror}); mend that, or use another file") from error
        if isinstance(error, pickle.UnpicklingError) and _names_code(path):  # nothing is wrong with the file
            raise InputError(
                f"{path}: holds objects that are not loaded, because that would run code; use another checkpoint"
            ) from error
        kind = "is damaged or incomplete" if zipfile.is_zipfile(path) else "is not a checkpoint, or was cut off"
        raise InputError(f"{path}: {kind} ({type(error).__name__}); use another checkpoint") from error
    payload = checkpoint.get(PAYLOAD_KEY) if isinstance(checkpoint, dict) else None
    if not isinstance(payload, dict) or not isinstance(checkpoint.get("state_dict"), dict):
        raise InputError(f"{path}: a checkpoint, but not one of sentrep; train one with `sentrep fit`")
    weights = [value for name, value in checkpoint["state_dict"].items() if str(name).startswith("encoder.")]
    if not weights or not all(isinstance(value, Tensor) for value in weights):
        raise InputError(f"{path}: the checkpoint's weights are missing or damaged; use another checkpoint")
    if wrong := [part for part in _PAYLOAD if not isinstance(payload.get(part), dict)]:
        raise InputError(f"{path}: the checkpoint's {wrong[0]} is missing or damaged; use another checkpoint")
    return checkpoint


def verify(path: str | Path) -> None:
    """Read a checkpoint file once and compare its checksums: a cut or altered file is recognised.

    ``torch.save`` stores a CRC-32 of every record and ``torch.load`` does not look at it.

    Raises:
        DamagedError: the file is cut off, or its content is not what was written.
        InputError: the file is missing, or cannot be read.
    """
    if not Path(path).is_file():
        raise InputError(f"{path}: no such checkpoint file; check the path")
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise DamagedError(f"{path}: is not a checkpoint, or was cut off; use another checkpoint")
            with zipfile.ZipFile(file) as archive:
                damaged = archive.testzip()
    except DamagedError:
        raise
    except Exception as error:  # a changed byte in the directory gives one of half a dozen types
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _OF_CONTENT:
            raise InputError(f"{path}: cannot be read ({error.strerror}); mend that, or use another file") from error
        damaged = type(error).__name__
    if damaged is not None:
        raise DamagedError(f"{path}: is damaged or incomplete (checksum of {damaged}); use another checkpoint")


def trained_head(checkpoint: dict[str, Any]) -> dict[str, Tensor] | None:
    """The masked-LM head that the objectives were trained with, without the word embeddings that it shares.

    Args:
        checkpoint: of `read_checkpoint`; its payload says where in the weights the head lies.
    """
    state, place = checkpoint["state_dict"], checkpoint[PAYLOAD_KEY].get("lm_head")
    if not isinstance(place, str):
        return None
    prefix = place.rstrip(".") + "."
    shared = {tensor.data_ptr() for key, tensor in state.items() if key.startswith("encoder.")}
    found = {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}
    return {key: tensor for key, tensor in found.items() if tensor.data_ptr() not in shared} or None


def _names_code(path: str | Path) -> bool:
    """Whether a file that torch refuses names functions or classes that are not for weights; nothing is run."""
    try:
        return bool(get_unsafe_globals_in_checkpoint(path))
    except Exception:  # half a dozen types for damaged files, here too
        return False
