"""What the crash suite (`faults.py`) does to a run of ``sentrep fit``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fault_runs import CONFIG, start


def send(folder: Path, number: int, moment: float | None = None) -> tuple[str, list[int]]:
    """Send a signal, after so many seconds or in the midst of training; returns when, at which step, and the status."""
    process = start(folder)
    if moment is None:
        _wait_for_training(process, folder)
    else:
        process.join(moment)
    if process.is_alive():
        os.kill(process.pid, number)
    process.join()
    steps = [step_of(path) for path in folder.rglob("*.ckpt")]
    saved = f"newest checkpoint: step {max(steps)}" if steps else "no checkpoint yet"
    return saved if moment is None else f"after {moment:.1f} s, {saved}", [process.exitcode]


def _wait_for_training(process: Any, folder: Path) -> None:
    """Until the run has written checkpoints of at least 12 steps."""
    while process.is_alive() and not any(int(path.stem[5:]) >= 12 for path in folder.rglob("step=*.ckpt")):
        time.sleep(0.02)


def damage(folder: Path, harm: Callable[[Path], str]) -> tuple[str, list[int]]:
    _, statuses = send(folder, signal.SIGKILL)
    return harm(folder), statuses


def _newest(folder: Path) -> Path | None:
    return max(folder.rglob("*.ckpt"), key=lambda path: (step_of(path), path.stem == "last"), default=None)


def step_of(path: Path) -> int:
    step: int = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"]
    return step


def cut(folder: Path) -> str:
    if (path := _newest(folder)) is None:
        return "no checkpoint to cut"
    os.truncate(path, path.stat().st_size // 2)
    return f"{path.name}, the newest, cut in half"


def flip(folder: Path) -> str:
    if (path := _newest(folder)) is None:
        return "no checkpoint to change"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    return f"one bit of {path.name}, the newest"


def delete_cache(folder: Path) -> str:
    shutil.rmtree(folder / "cache", ignore_errors=True)
    return "between two runs"


def unplug(folder: Path) -> tuple[str, list[int]]:
    """The cache disappears under a process that trains, and is still away when the process ends."""
    process = start(folder)
    _wait_for_training(process, folder)
    delete_cache(folder)
    process.join()
    return "while it trains", [process.exitcode]


def cut_cache(folder: Path) -> str:
    for path in (folder / "cache").rglob("*"):
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2)
    return "to half, between two runs"


def full_disk(folder: Path) -> tuple[str, list[int]]:
    """The checkpoints' disk takes the first ones, then is full until the run has ended; then there is room again."""
    config = {
        **CONFIG,
        "checkpoint": {"init_args": {**CONFIG["checkpoint"]["init_args"], "dirpath": str(folder / "disk")}},
    }
    (folder / "run.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder / "disk")], check=True)
    try:
        process = start(folder)
        while process.is_alive() and not list((folder / "disk").glob("last.ckpt")):
            time.sleep(0.05)
        filler = folder / "disk" / "filler"
        with filler.open("wb") as file, open("/dev/zero", "rb") as zeros:
            try:
                while True:
                    file.write(zeros.read(1 << 16))
                    file.flush()
            except OSError:
                pass
        process.join()
        failed = (folder / "log.txt").read_text(encoding="utf-8").count("was not written")
        filler.unlink()
        kept = [path.name for path in (folder / "disk").glob("*.ckpt")]
        shutil.copytree(folder / "disk", folder / "kept")
    finally:
        subprocess.run(["umount", str(folder / "disk")], check=True)
    (folder / "disk").rmdir()
    (folder / "kept").rename(folder / "disk")  # a disk with room again
    return f"{failed} warnings, kept {', '.join(sorted(kept))}", [process.exitcode]
