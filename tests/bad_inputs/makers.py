"""What rows of the table need beside plain files: a trained model, harmed checkpoints, odd kinds of files."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import load_file, save_file

import sentrep
from sentrep.cli import main
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
