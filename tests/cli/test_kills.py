"""Commands that are killed at random times and started again end as those that were left alone; two at once."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from marian import save_tiny_marian

from sentrep.cli import main
from sentrep.encoder import Normalize
from support import forked, tiny_encoder, toy_sentences, write_workplace

KILLS = {"backtranslate": 5, "fit --seeds": 3, "export": 5}
"""Of these commands; of the others one."""


def trained(folder: Path) -> dict[str, Any]:
    """Weights and the optimiser's state, and the exported model, of the run that came to its end."""
    (model,) = folder.rglob("model.safetensors")
    checkpoint = torch.load(model.parents[1] / "checkpoints" / "last.ckpt", weights_only=True)
    (optimizer,) = checkpoint["optimizer_states"]
    moments = {f"{n}.{key}": value for n, state in optimizer["state"].items() for key, value in state.items()}
    tensors = {**checkpoint["state_dict"], **moments}
    found = {name: hashlib.blake2b(tensor.numpy().tobytes()).hexdigest() for name, tensor in tensors.items()}
    return {"step": checkpoint["global_step"], "model": digest(model), **found}


def compared(folder: Path) -> dict[str, Any]:
    (report,) = folder.rglob("report.json")
    files = [*folder.rglob("scores.parquet"), *(report.with_suffix(ending) for ending in (".json", ".md", ".csv"))]
    return {path.relative_to(folder).as_posix(): digest(path) for path in files}


def files(folder: Path) -> dict[str, Any]:
    return {path.relative_to(folder).as_posix(): digest(path) for path in folder.rglob("*") if path.is_file()}


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes()).hexdigest()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    write_workplace(tmp_path)
    tiny_encoder(seed=9, pooling="mean", max_seq_length=48, modules=[Normalize()]).save_pretrained(tmp_path / "model")
    (tmp_path / "lines.txt").write_text("\n".join(toy_sentences(3000)))
    (tmp_path / "many.txt").write_text("\n".join(toy_sentences(3000) * 10))
    return tmp_path


SETTINGS = {
    "fit": [
        "-c", "run.yaml", "--trainer.max_steps", "24", "--trainer.val_check_interval", "4", "--ckpt_path", "last",
        "--trainer.default_root_dir",
    ],
    "fit --seeds": [
        "-c", "run.yaml", "--variant", "low=--model.optimizer.lr 1e-5", "--seeds", "1", "--data.test", "[dev.csv]",
        "--trainer.default_root_dir",
    ],
    "encode": ["model", "--input", "many.txt", "--overwrite", "true", "--output"],
}  # fmt: skip
OUTCOMES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "fit": trained,
    "fit --seeds": compared,
    "encode": lambda path: {"array": digest(path)},
}


def kill_often(words: list[str], *, whole: str, killed: str, after: Callable[[], object] = lambda: None) -> None:
    """Run a command alone into one output, and into another through `KILLS` kills, each in a process of its own.

    The kills come at moments all over the time that the command takes; ``after`` each of them a function is called.
    """
    began, draws = time.monotonic(), random.Random(0)
    finish([*words, whole])
    name = "fit --seeds" if "--seeds" in words else words[0]
    took, kills = time.monotonic() - began, KILLS.get(name, 1)
    for number in range(kills):
        running = forked(main, [*words, killed])
        running.join((number + draws.uniform(0.2, 1)) / kills * took)
        if running.exitcode is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.join()
        after()
    finish([*words, killed])


def finish(words: list[str]) -> None:
    running = forked(main, words, said="said.txt")
    running.join()
    assert running.exitcode == 0, Path("said.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("command", SETTINGS)
def test_a_killed_command_ends_as_one_that_was_left_alone(command: str, place: Path) -> None:
    ending = ".npy" if command == "encode" else ""
    kill_often([command.split()[0], *SETTINGS[command]], whole=f"whole{ending}", killed=f"killed{ending}")
    assert OUTCOMES[command](place / f"killed{ending}") == OUTCOMES[command](place / f"whole{ending}")
    assert not list(place.rglob("*.tmp"))


@pytest.mark.slow
def test_a_killed_export_leaves_a_whole_folder_or_none(place: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")

    def check() -> None:
        if (place / "killed").exists():  # the kill came behind the end
            assert files(place / "killed") == files(place / "whole")
            shutil.rmtree(place / "killed")

    kill_often(["export", "--format", "onnx", "model", "--output"], whole="whole", killed="killed", after=check)
    assert "onnx/model.onnx" in files(place / "killed")
    check()
    assert not list(place.rglob("*.tmp"))


@pytest.mark.slow
def test_a_killed_translation_ends_as_one_that_was_left_alone(place: Path) -> None:
    """Nothing is lost or there twice; --overwrite is for a kill that comes behind the end."""
    (place / "lines.txt").write_text("\n".join(toy_sentences(1100)))
    for seed, name in enumerate(("there", "back")):
        save_tiny_marian(place / name, seed=seed)
    words = "backtranslate --input lines.txt --forward there --backward back --generation.beams 2 --overwrite true"
    kill_often([*words.split(), "--output"], whole="whole.parquet", killed="killed.parquet")
    assert (place / "killed.parquet").read_bytes() == (place / "whole.parquet").read_bytes()
    assert not list(place.rglob("*.tmp"))
