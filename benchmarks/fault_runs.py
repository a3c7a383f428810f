"""The small runs of the crash suite (`faults.py`): how they are started, and what is compared at their end."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sentrep.cli import main as sentrep
from sentrep.cli.runs import trainer  # noqa: F401 (imported before the fork, so that no child has to)

CONFIG: dict[str, Any] = {
    "seed_everything": 7,
    "model": {
        "encoder": {
            "backbone": {
                "model_type": "bert", "vocab_size": 4000, "hidden_size": 32, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": 66, "pad_token_id": 0,
            },
            "tokenizer": "toy",
            "pooling": "mean",
        },
        "objectives": {
            "contrastive": {
                "class_path": "Contrastive",
                "init_args": {
                    "negatives": {
                        "bank": {"class_path": "MemoryBank", "init_args": {"size": 24}},
                        "mixture": {"class_path": "GaussianMixtureNegatives", "init_args": {"components": 3}},
                        "refined": "RefinedNoiseNegatives",
                    }
                },
            },
            "denoising": {"class_path": "Denoising", "init_args": {"layers": 2, "feed_forward": 32}},
        },
        "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3}},
    },
    "data": {"train": "corpus.txt", "val": ["toy-dev"], "batch_size": 8},
    "trainer": {
        "max_steps": 60, "accumulate_grad_batches": 2, "val_check_interval": 24, "accelerator": "cpu",
        "enable_model_summary": False, "enable_progress_bar": False,
    },
    "checkpoint": {"init_args": {"every_n_train_steps": 3, "monitor": None, "filename": "step={step}"}},
}  # fmt: skip


@dataclass
class Trial:
    """What was done to one run, and how it ended."""

    fault: str
    detail: str
    statuses: list[int]
    """Exit status of each of its processes; below 0: ended by this signal."""
    identical: bool
    """Whether all final weights and the optimiser's state equal the uninterrupted run's, bit for bit."""


def workplace(folder: Path) -> Path:
    """A folder with configuration and corpus: 100 sentences, so that a run crosses epochs."""
    from sentrep.data import open_corpus

    folder.mkdir()
    rows = [row.sentences[0] for _, row in zip(range(100), open_corpus("toy").rows(), strict=False)]
    (folder / "corpus.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "run.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


def start(folder: Path, *words: str, command: str = "fit") -> Any:
    """A process that runs a command of sentrep in the folder, with a process group of its own."""
    words = (command, *(("-c", "run.json") if command == "fit" else ()), *words)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(folder, words))
    process.start()
    return process


def _child(folder: Path, words: tuple[str, ...]) -> None:
    """As a shell would start it."""
    os.setsid()
    os.chdir(folder)
    os.environ["SENTREP_CACHE"] = "cache"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    with Path("log.txt").open("a", encoding="utf-8") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        status = sentrep(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(folder: Path, *words: str, command: str = "fit") -> int:
    """The exit status of a command."""
    process = start(folder, *words, command=command)
    process.join()
    status: int = process.exitcode
    return status


def finish(folder: Path) -> list[int]:
    """Go on until the run has ended by itself, three times at most."""
    statuses = [run(folder, "--ckpt_path", "last")]
    while statuses[-1] and len(statuses) < 3:
        statuses.append(run(folder, "--ckpt_path", "last"))
    return statuses


def fingerprint(folder: Path) -> str:
    """Hash of the last state: weights, extra state, optimiser."""
    (path,) = folder.rglob("last.ckpt")  # a damaged one has been set aside
    return fingerprint_of(path)


def fingerprint_of(path: Path) -> str:
    """The same of one checkpoint."""
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    digest = hashlib.sha256(str(checkpoint["global_step"]).encode())
    _feed(digest, checkpoint["state_dict"])
    _feed(digest, checkpoint["optimizer_states"])
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key in value:
            digest.update(repr(key).encode())
            _feed(digest, value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(digest, item)
    else:
        digest.update(repr(value).encode())
