"""What rows of the table need beside plain files: a trained model, harmed checkpoints, odd kinds of files."""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import lightning.pytorch
import numpy as np
import torch
import yaml
from safetensors.torch import load_file, save_file

import sentrep
from sentrep.cli import main
from sentrep.resumable import check
from support import FAMILIES, toy_sentences

NAMES: dict[str, Any] = {"sentrep": sentrep, "torch": torch, "np": np, "math": math, "Path": Path, "FAMILIES": FAMILIES}
"""What a row's ``call`` may name."""

SENTENCES = [sentence for sentence in toy_sentences(120) if "," not in sentence]


def workplace(folder: Path) -> Path:
    """A folder with corpus.txt, pairs.csv, dev.csv, run.yaml (4 steps of batch 4), best.ckpt and model/."""
    (folder / "corpus.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES[24:40]))
    pairs = [f"{SENTENCES[2 * i]},{SENTENCES[2 * i + 1]}\n" for i in range(8)]
    (folder / "pairs.csv").write_text("".join(["sent0,sent1\n", *pairs]))
    scored = [f"{SENTENCES[2 * i]},{SENTENCES[2 * i + 1]},{i % 6}\n" for i in range(12)]
    (folder / "dev.csv").write_text("".join(["sentence1,sentence2,score\n", *scored]))
    configuration = {
        "model": {
            "encoder": {"backbone": FAMILIES["bert"], "tokenizer": "toy", "pooling": "mean"},
            "head": {"kind": "mlp"},
            "objectives": {"simcse": {"class_path": "Contrastive", "init_args": {"temperature": 0.1}}},
        },
        "data": {"train": "corpus.txt", "val": ["dev.csv"], "batch_size": 4},
        "trainer": {
            "max_steps": 4,
            "val_check_interval": 2,
            "accelerator": "cpu",
            "enable_model_summary": False,
            "enable_progress_bar": False,
        },
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(configuration))
    here = Path.cwd()
    os.chdir(folder)
    try:
        flags = ["--trainer.logger.save_dir", "trained", "--data.cache_dir", str(folder / "cache")]
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


def plugin(base: str, first: str = "") -> None:
    """custom.py with a subclass ``Early`` of ``base`` that cannot do without ``width``."""
    arguments = f"{first}, width: int" if first else "width: int"
    modules = ("lightning.pytorch.loggers", "sentrep.stability", "sentrep.views", "torch")
    imports = "".join(f"import {name}\n" for name in modules)
    Path("custom.py").write_text(
        f"{imports}\nclass Early({base}):\n    def __init__(self, {arguments}):\n        super().__init__()\n"
    )
    sys.modules.pop("custom", None)


def resume_in_python(path: str) -> None:
    """A Trainer of the user's own, without the command line."""
    module, trainer = _resuming()
    trainer.fit(module, datamodule=sentrep.SentRepDataModule("corpus.txt", batch_size=4, seed=42), ckpt_path=path)


NAMES["resume_in_python"] = resume_in_python


def resume_from(change: str, name: str = "best.ckpt") -> None:
    """What a resumed ``sentrep fit`` does first with a checkpoint, whose content ``c`` a statement has changed."""
    c = torch.load(name, weights_only=True)
    exec(change, {**NAMES, "c": c})
    check(c, *_resuming(), name, training=True)


@functools.cache
def _resuming() -> tuple[sentrep.SentRepModule, lightning.pytorch.Trainer]:
    encoder = sentrep.SentenceEncoder(FAMILIES["bert"], tokenizer="toy", pooling="mean")
    objectives = {"simcse": sentrep.objectives.Contrastive()}
    module = sentrep.SentRepModule(encoder, objectives, head=sentrep.ProjectionHead("mlp"), seed=42)
    return module, lightning.pytorch.Trainer(max_steps=8, accelerator="cpu", logger=False, enable_progress_bar=False)


NAMES["resume_from"] = resume_from
