"""What rows of the table need beside plain files: a trained model, harmed checkpoints, odd kinds of files."""

from __future__ import annotations

import builtins
import gzip
import io
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

import sentrep
from sentrep.cli import main
from support import write_workplace

NAMES: dict[str, Any] = {"sentrep": sentrep, "math": math}
"""What a row's ``call`` may name."""

PATCH = pytest.MonkeyPatch()
"""Undone after every row."""


def workplace(folder: Path) -> Path:
    """A folder with corpus.txt, dev.csv, run.yaml (4 steps of batch 4), best.ckpt and model/."""
    write_workplace(folder)
    here = Path.cwd()
    os.chdir(folder)
    try:
        flags = ["--trainer.logger.save_dir", "trained"]
        assert main(["fit", "-c", "run.yaml", *flags]) == 0
        run = folder / "trained" / "run" / "version_0"
        (run / "checkpoints" / "last.ckpt").rename(folder / "best.ckpt")
        (run / "model").rename(folder / "model")
    finally:
        os.chdir(here)
    shutil.rmtree(folder / "trained")
    return folder


def fifo(name: str) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(name)


def folder(name: str) -> None:
    """An empty folder."""
    Path(name).mkdir(parents=True)


def edit_checkpoint(change: str, name: str = "best.ckpt") -> None:
    """Run a statement on the content ``c`` of a checkpoint and write it back."""
    c = torch.load(name, weights_only=True)
    exec(change, {**NAMES, "c": c})
    torch.save(c, name)


def edit_json(name: str, change: str) -> None:
    """Run a statement on the content ``c`` of a JSON file and write it back."""
    path = Path(name)
    c = json.loads(path.read_text(encoding="utf-8"))
    exec(change, {**NAMES, "c": c})
    path.write_text(json.dumps(c), encoding="utf-8")


def edit_weights(change: str, name: str = "model/model.safetensors") -> None:
    """Run a statement on the weights ``c`` of a safetensors file and write them back."""
    c = load_file(name)
    exec(change, {**NAMES, "c": c})
    save_file(c, name, metadata={"format": "pt"})


# --- odd kinds of files -----------------------------------------------------------------------------------------------


def gzipped(name: str, text: str) -> None:
    """A compressed text."""
    Path(name).write_bytes(gzip.compress(text.encode()))


def parquet(name: str, columns: dict[str, Any]) -> None:
    """A table."""
    pq.write_table(pa.table(columns), name)


def cut(name: str) -> None:
    """Keep the first half of a file."""
    data = Path(name).read_bytes()
    Path(name).write_bytes(data[: len(data) // 2])


def encoded(name: str, text: str, encoding: str) -> None:
    """A text in another encoding than UTF-8."""
    Path(name).write_bytes(text.encode(encoding))


# --- a machine that gives up ------------------------------------------------------------------------------------------


def full_disk(below: str) -> None:
    """Every file that is opened for writing and has this in its name takes nothing."""
    plain = builtins.open

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if below in str(file) and set(mode) & set("wxa"):
            plain(file, "ab").close()
            return plain("/dev/full", mode.replace("x", "w"), *args, **options)
        return plain(file, mode, *args, **options)

    PATCH.setattr(builtins, "open", opened)
    PATCH.setattr(io, "open", opened)


def offline() -> None:
    """What HF_HUB_OFFLINE does when it is set before the start."""
    for place in ("huggingface_hub.constants", "datasets.config"):
        PATCH.setattr(f"{place}.HF_HUB_OFFLINE", True)
