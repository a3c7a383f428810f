"""Checkpoint files that come from anywhere: read without running their code, and known again as what was written."""

from __future__ import annotations

import errno
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sentrep.errors import InputError

PAYLOAD_KEY = "sentrep"
"""Key of a checkpoint under which the encoder's architecture, tokenizer and settings lie."""

FORMAT = 1
"""Number of the layout of a checkpoint; a file with another one is refused."""

_SEALED = (PAYLOAD_KEY, "state_dict", "loops", "callbacks", "optimizer_states", "lr_schedulers", "epoch", "global_step")
"""The parts of a checkpoint that a run goes on from; what a user's module puts beside them is its own affair."""

_SAMPLES = 1 << 13
"""Numbers of a tensor that `digest` looks at; random states have fewer."""

_OF_CONTENT = (errno.EINVAL, errno.EOVERFLOW)
"""What the system answers to the impossible offsets of a damaged file; other numbers are its own trouble."""


class DamagedError(InputError):
    """A file was read, and its content is not what was written."""


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Content of a checkpoint of sentrep, read without running any code from it, after `verify`.

    Raises:
        DamagedError: the content is not what was written.
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
    check_seal(checkpoint, path)
    return checkpoint


def seal(checkpoint: dict[str, Any]) -> None:
    """Write the digest of a checkpoint's content into its payload; whoever changes a content by hand calls this again.

    Args:
        checkpoint: with a payload; changed in place.
    """
    checkpoint[PAYLOAD_KEY] = {**checkpoint[PAYLOAD_KEY], "format": FORMAT, "digest": None}
    checkpoint[PAYLOAD_KEY]["digest"] = _of_content(checkpoint)


def check_seal(checkpoint: Any, path: object) -> None:
    """Compare a checkpoint with the digest that `seal` has written into it.

    Raises:
        DamagedError: something in it was changed, or is missing.
        InputError: there is none, or the format is another one.
    """
    payload = checkpoint.get(PAYLOAD_KEY) if isinstance(checkpoint, dict) else None
    if not isinstance(payload, dict):
        raise InputError(f"{path}: a checkpoint, but not one of sentrep; train one with `sentrep fit`")
    if payload.get("format") != FORMAT:
        raise InputError(
            f"{path}: was written by sentrep {payload.get('version')} in another format than this version reads "
            f"({payload.get('format')}, not {FORMAT}); use that version, or train anew"
        )
    found = {**checkpoint, PAYLOAD_KEY: {**payload, "digest": None}}
    if payload.get("digest") != _of_content(found):
        raise DamagedError(f"{path}: is damaged, or was changed after it was written; use another checkpoint")


def digest(content: Any) -> str:
    """A number for plain data and tensors: equal where all but large tensors is, and these agree in type and samples.

    It tells a changed content, and costs little. What a disk does to single bytes is told by `verify`.
    """
    found = hashlib.blake2b(digest_size=16)

    def add(part: Any) -> None:
        found.update(type(part).__name__.encode())
        if isinstance(part, Tensor):
            flat = part.detach().reshape(-1)
            few = flat[:: len(flat) // 64 if len(flat) > _SAMPLES else 1].contiguous().cpu()
            found.update(f"{part.dtype} {tuple(part.shape)}".encode() + few.view(torch.uint8).numpy().tobytes())
        elif isinstance(part, dict):
            for key, below in part.items():
                add(key)
                add(below)
        elif isinstance(part, (list, tuple)):
            for below in part:
                add(below)
        else:
            found.update(repr(part).encode())
        found.update(b";")

    add(content)
    return found.hexdigest()


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


def _of_content(checkpoint: dict[str, Any]) -> str:
    return digest([checkpoint.get(key) for key in _SEALED])
