"""Checkpoint files: whole or not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from sentrep.checkpoint.io import AtomicCheckpointIO
from sentrep.errors import InputError
from sentrep.io.checkpoint_file import verify

CONTENT: dict[str, Any] = {"weights": torch.arange(300.0), "more": {"names": ["a", "b"], "numbers": torch.ones(7, 5)}}


def equal(content: dict[str, Any]) -> bool:
    return (
        torch.equal(content["weights"], CONTENT["weights"])
        and content["more"]["names"] == CONTENT["more"]["names"]
        and torch.equal(content["more"]["numbers"], CONTENT["more"]["numbers"])
    )


def test_the_file_appears_by_a_rename_after_it_was_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.ckpt"
    calls = []
    fsync, replace = os.fsync, os.replace

    def note_sync(handle: int) -> None:
        calls.append(os.readlink(f"/proc/self/fd/{handle}") if os.path.exists("/proc/self/fd") else "?")
        fsync(handle)

    def note_rename(source: Path, target: Path) -> None:
        verify(source)  # whole before it takes the name
        assert calls[0] in (str(source), "?")
        calls.append(f"rename to {target}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_rename)
    AtomicCheckpointIO().save_checkpoint(CONTENT, path)
    if calls[0] != "?":
        assert calls[1:] == [f"rename to {path}", str(tmp_path)]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.ckpt"
    AtomicCheckpointIO().save_checkpoint(CONTENT, path)

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"x\.ckpt: cannot be written \(no space\)"):
        AtomicCheckpointIO().save_checkpoint({"weights": torch.zeros(9)}, path)
    assert equal(AtomicCheckpointIO().load_checkpoint(path))
    assert [file.name for file in tmp_path.iterdir()] == ["x.ckpt"]


def test_a_flipped_bit_is_noticed_wherever_it_matters(tmp_path: Path) -> None:
    path, changed = tmp_path / "x.ckpt", tmp_path / "y.ckpt"
    torch.save(CONTENT, path)
    whole = path.read_bytes()
    noticed = 0
    for place in range(0, len(whole), 11):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        changed.write_bytes(data)
        try:
            content = AtomicCheckpointIO().load_checkpoint(changed)
        except Exception:
            noticed += 1
        else:
            assert equal(content), f"byte {place} changes the content and is not noticed"
    assert noticed > len(whole) / 11 / 2  # the rest is padding and dates


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.999])
def test_a_cut_file_is_noticed(kept: float, tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    torch.save(CONTENT, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept if kept > 1 else kept * len(whole))])
    with pytest.raises(InputError, match=r"x\.ckpt: is no checkpoint, damaged or cut off"):
        verify(path)
