"""Commands that are killed at random times and started again end as those that were left alone; two at once."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from marian import save_tiny_marian

from sentrep.cli import main, seeds
from sentrep.encoder import Normalize
from support import forked, tiny_encoder, toy_sentences, write_workplace

KILLS = {"backtranslate": 3, "fit": 3, "export": 3}
"""Of these commands; of the others one."""
COMMANDS = {
    "fit": [
        "-c", "run.yaml", "--variant", "low=--model.optimizer.lr 1e-5", "--seeds", "1", "--data.test", "[dev.csv]",
        "--trainer.default_root_dir",
    ],
    "encode": ["model", "--input", "many.txt", "--overwrite", "true", "--output"],
    "backtranslate": [
        "--input", "lines.txt", "--forward", "there", "--backward", "back", "--beams", "2",
        "--overwrite", "true", "--output",
    ],
}  # fmt: skip
"""``--overwrite`` is for a kill that comes after the end. `integration/test_resuming.py` kills a single ``fit``."""


def command_at_work(words: list[str]) -> int:
    """Run a command. The runs of ``fit --seeds`` are forks, so that kills hit their work instead of their imports.

    `tests/unit/cli/test_seeds.py` runs ``fit --seeds`` once with processes of ``python -m sentrep``.
    """
    seeds.subprocess = SimpleNamespace(run=fork)  # type: ignore[assignment]
    return main(words)


def fork(command: list[str], stdout: IO[bytes], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """Stand in for ``subprocess.run`` of ``python -m sentrep WORDS``."""
    child = multiprocessing.get_context("fork").Process(target=forked_run, args=(command[3:], stdout.fileno()))
    child.start()
    child.join()
    assert child.exitcode is not None
    return subprocess.CompletedProcess(command, child.exitcode)


def forked_run(words: list[str], output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    os._exit(main(words))  # the usual end joins the threads of a pool, and the fork is in one of them


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes()).hexdigest()


def files(place: Path, *names: str) -> dict[str, str]:
    """The content of a file, or of the files below a folder that have these names; without names of all files."""
    found = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    chosen = [path for path in found if not names or path == place or path.name in names]
    return {path.relative_to(place).as_posix(): digest(path) for path in chosen}


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


def kill_often(words: list[str], *, whole: str, killed: str, after: Callable[[], object] = lambda: None) -> None:
    """Run a command alone into one output, and into another through `KILLS` kills, each in a process of its own.

    The kills come at moments all over the time that the command takes; ``after`` each of them a function is called.
    """
    began, draws = time.monotonic(), random.Random(0)
    finish([*words, whole])
    took, kills = time.monotonic() - began, KILLS.get(words[0], 1)
    for number in range(kills):
        running = forked(command_at_work, [*words, killed])
        running.join((number + draws.uniform(0.2, 1)) / kills * took)
        if running.exitcode is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.join()
        after()
    finish([*words, killed])


def finish(words: list[str]) -> None:
    running = forked(command_at_work, words, said="said.txt")
    running.join()
    assert running.exitcode == 0, Path("said.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_ends_as_one_that_was_left_alone(command: str, place: Path) -> None:
    if command == "backtranslate":
        (place / "lines.txt").write_text("\n".join(toy_sentences(1100)))
        for seed, name in enumerate(("there", "back")):
            save_tiny_marian(place / name, seed=seed)
    ending = {"encode": ".npy", "backtranslate": ".parquet"}.get(command, "")
    kill_often([command, *COMMANDS[command]], whole=f"whole{ending}", killed=f"killed{ending}")
    names = ("scores.parquet", "report.json", "report.md", "report.csv")
    assert files(place / f"killed{ending}", *names) == files(place / f"whole{ending}", *names) != {}
    assert not [path for path in place.rglob(".*") if path.suffix in (".tmp", ".part", ".lock")]


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
