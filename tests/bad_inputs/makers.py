"""What rows of the table need beside plain files: a trained model, harmed checkpoints, odd kinds of files."""

from __future__ import annotations

import builtins
import bz2
import errno
import gzip
import io
import json
import lzma
import math
import os
import shutil
import socket
import sys
import zipfile
from pathlib import Path
from typing import Any

import lightning.pytorch
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

import sentrep
from sentrep.cli import main
from support import FAMILIES, SENTENCES, write_workplace

NAMES: dict[str, Any] = {
    "sentrep": sentrep,
    "torch": torch,
    "np": np,
    "pd": pd,
    "math": math,
    "Path": Path,
    "FAMILIES": FAMILIES,
}
"""What a row's ``call`` may name."""

PATCH = pytest.MonkeyPatch()
"""Undone after every row."""


def workplace(folder: Path) -> Path:
    """A folder with corpus.txt, pairs.csv, dev.csv, run.yaml (4 steps of batch 4), best.ckpt and model/."""
    write_workplace(folder)
    pairs = [f"{SENTENCES[2 * i]},{SENTENCES[2 * i + 1]}\n" for i in range(8)]
    (folder / "pairs.csv").write_text("".join(["sent0,sent1\n", *pairs]))
    here = Path.cwd()
    os.chdir(folder)
    try:
        flags = ["--trainer.logger.save_dir", "trained", "--data.reading.cache_dir", str(folder / "cache")]
        assert main(["fit", "-c", "run.yaml", *flags]) == 0
        run = folder / "trained" / "run" / "version_0"
        (run / "checkpoints" / "last.ckpt").rename(folder / "best.ckpt")
        (run / "model").rename(folder / "model")
    finally:
        os.chdir(here)
    for left in ("trained", "cache"):
        shutil.rmtree(folder / left)
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


def symlink(name: str, target: str) -> None:
    """A symbolic link, perhaps to nothing or to itself."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).symlink_to(target)


def unix_socket(name: str) -> None:
    """A socket that nobody listens at."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)


def odd_name(hexadecimal: str, text: str) -> None:
    """A file whose name is these bytes, which need not be UTF-8."""
    with open(bytes.fromhex(hexadecimal), "w") as file:
        file.write(text)


def packed(name: str, text: str, kind: str = "", keep: float = 1.0) -> None:
    """A compressed text of which only a share is kept; ``kind`` differs from the name's ending where it says so."""
    packers = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "": lambda data: data}
    data = packers[kind](text.encode())
    Path(name).write_bytes(data[: int(len(data) * keep)])


def zipped(name: str, members: dict[str, str]) -> None:
    """A zip archive."""
    with zipfile.ZipFile(name, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)


def parquet(name: str, columns: dict[str, Any] | None = None, twice: str | None = None, keep: float = 1.0) -> None:
    """A table; ``twice`` names a column that stands in it a second time."""
    table = pa.table(columns or {})
    if twice is not None:
        table = table.append_column(twice, table[twice])
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, name)
    cut(name, keep)


def cut(name: str, keep: float = 0.5) -> None:
    """Keep the beginning of a file."""
    data = Path(name).read_bytes()
    Path(name).write_bytes(data[: int(len(data) * keep)])


def encoded(name: str, text: str, encoding: str) -> None:
    """A text in another encoding than UTF-8."""
    Path(name).write_bytes(text.encode(encoding))


def remove(name: str) -> None:
    """Take a file away."""
    Path(name).unlink()


def copy(source: str, target: str) -> None:
    """The same file or folder under a second name."""
    copier = shutil.copytree if Path(source).is_dir() else shutil.copyfile
    copier(source, target)


# --- models, sets, runs -----------------------------------------------------------------------------------------------


def model_folder(name: str, module: str) -> None:
    """A model with a module of that kind behind its pooling."""
    kinds = [getattr(sentrep.encoder, module)()]
    sentrep.SentenceEncoder(FAMILIES["bert"], tokenizer="toy", pooling="mean", modules=kinds).save_pretrained(name)


def legacy_weights(kind: str = "pickle") -> None:
    """The model's weights as an older pytorch_model.bin: a pickle that wants to run code, or another damage."""
    weights = load_file("model/model.safetensors")
    remove("model/model.safetensors")
    file = "model/pytorch_model.bin"
    if kind == "pickle":
        Path(file).write_bytes(b"\x80\x04cposix\nsystem\n\x8c\x04true\x85R.")
    elif kind == "object":
        torch.save({**weights, "extra": Path("x")}, file)
    elif kind == "list":
        torch.save(list(weights.values()), file)


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


def failing(target: str, error: str) -> None:
    """Something that raises when it is called, such as a machine without memory: ``MemoryError()``."""

    def fail(*args: Any, **options: Any) -> Any:
        raise eval(error, {**NAMES, "errno": errno})

    PATCH.setattr(target, fail)


def environment(**values: str) -> None:
    """Environment variables."""
    for name, value in values.items():
        PATCH.setenv(name, value)


def offline() -> None:
    """What HF_HUB_OFFLINE does when it is set before the start."""
    for place in ("huggingface_hub.constants", "datasets.config"):
        PATCH.setattr(f"{place}.HF_HUB_OFFLINE", True)


def stdin(hexadecimal: str) -> None:
    """What arrives at standard input."""
    PATCH.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(bytes.fromhex(hexadecimal))))


def plugin(base: str, first: str = "") -> None:
    """custom.py with a subclass ``Early`` of ``base`` that cannot do without ``width``."""
    arguments = f"{first}, width: int" if first else "width: int"
    modules = ("lightning.pytorch.loggers", "sentrep.stability", "sentrep.views", "torch")
    imports = "".join(f"import {name}\n" for name in modules)
    Path("custom.py").write_text(
        f"{imports}\nclass Early({base}):\n    def __init__(self, {arguments}):\n        super().__init__()\n"
    )
    sys.modules.pop("custom", None)


def train_in_python(ckpt_path: str | None = None, train: str = "corpus.txt", **data: Any) -> None:
    """A Trainer of the user's own, without the command line."""
    encoder = sentrep.SentenceEncoder(FAMILIES["bert"], tokenizer="toy", pooling="mean")
    objectives = {"simcse": sentrep.objectives.Contrastive()}
    module = sentrep.SentRepModule(encoder, objectives, head=sentrep.ProjectionHead("mlp"), seed=42)
    trainer = lightning.pytorch.Trainer(max_steps=8, accelerator="cpu", logger=False, enable_progress_bar=False)
    data = {"batch_size": 4, "seed": 42, **data}
    trainer.fit(module, datamodule=sentrep.SentRepDataModule(train, **data), ckpt_path=ckpt_path)


NAMES["train_in_python"] = train_in_python
