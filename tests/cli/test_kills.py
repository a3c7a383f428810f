"""Commands that are killed at random times and started again end as those that were left alone; two at once."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adaptation.texts import documents, write_corpus

from sentrep.cli import main
from sentrep.encoder import Normalize
from sentrep.io.files import hold
from support import tiny_encoder, write_workplace

KILLS = int(os.environ.get("SENTREP_KILLS", "2"))
"""Of each command."""
OFTEN = {
    "model": {"encoder": {"max_length": 32}, "optimizer": {"init_args": {"lr": 0.003}}},
    "data": {"batch_size": 16},
    "trainer": {"max_steps": 60, "val_check_interval": 7, "accelerator": "cpu", "enable_progress_bar": False},
}
"""An adaptation of three epochs, which no validation ends."""
CLOCK = ("seconds", "folder", "sentence")
"""Of an adaptation's outcome: what is of its time and place."""


def adapted(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "outcome.json").read_text())
    for row in found["curve"]:
        del row["minutes"]
    weights = {path.name: digest(path) for path in folder.glob("model/*.safetensors")}
    return {**{key: value for key, value in found.items() if key not in CLOCK}, **weights}


def compared(folder: Path) -> dict[str, Any]:
    files = [*folder.rglob("scores.npz"), *(folder / f"report.{ending}" for ending in ("json", "md", "csv"))]
    return {path.relative_to(folder).as_posix(): digest(path) for path in files}


def exported(folder: Path) -> dict[str, Any]:
    return {path.relative_to(folder).as_posix(): digest(path) for path in folder.rglob("*") if path.is_file()}


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes()).hexdigest()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENTREP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    write_workplace(tmp_path)
    write_corpus(tmp_path / "docs.jsonl", documents(260))
    tiny_encoder(seed=9, pooling="mean", max_seq_length=48, modules=[Normalize()]).save_pretrained(tmp_path / "model")
    (tmp_path / "often.yaml").write_text(json.dumps(OFTEN))
    return tmp_path


RECIPE = Path(__file__).resolve().parents[2] / "configs" / "adapt" / "pairs.yaml"
SETTINGS = {
    "adapt": ["docs.jsonl", "--backbone", "model", "--recipe", f"[{RECIPE},often.yaml]", "--minutes", "60", "--output"],
    "compare": [
        "-c", "run.yaml", "--variant", "low=--model.optimizer.lr 1e-5", "--seeds", "1", "--sets", "[dev.csv]",
        "--output",
    ],
    "export": ["--overwrite", "true", "model"],
}  # fmt: skip
OUTCOMES: dict[str, Callable[[Path], dict[str, Any]]] = {"adapt": adapted, "compare": compared, "export": exported}


@pytest.mark.slow
@pytest.mark.parametrize("command", SETTINGS)
def test_a_killed_command_ends_as_one_that_was_left_alone(command: str, place: Path) -> None:
    words, outcome = [sys.executable, "-m", "sentrep", command, *SETTINGS[command]], OUTCOMES[command]
    began = time.monotonic()
    subprocess.run([*words, "whole"], check=True, capture_output=True)
    took, draws = time.monotonic() - began, random.Random(0)
    for _ in range(KILLS):
        running = subprocess.Popen([*words, "killed"], stdout=-3, stderr=-3, start_new_session=True)
        try:
            running.wait(draws.uniform(0.2, 1) * took)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    subprocess.run([*words, "killed"], check=True, capture_output=True)
    assert outcome(place / "killed") == outcome(place / "whole")
    assert not list(place.rglob("*.tmp"))


def test_of_two_exports_into_one_folder_one_works(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with hold(".vectors.lock", "x"):
        assert main(["export", "model", "vectors"]) == 1
    assert "another process is at work on the export to vectors (process" in capsys.readouterr().err
    assert main(["export", "model", "vectors"]) == 0
    assert not list(place.glob(".vectors*"))
