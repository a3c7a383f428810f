"""The crash suite (`faults.py`) for ``compare``, for ``encode`` into parts, and for fits that start together."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fault_runs import CONFIG, Trial, fingerprint_of, run, start, workplace

ROWS_PER_PART = 500
LINES = 20_000
PATIENCE = 60
"""Seconds for a trainer that outlives its comparison to end."""


def kill_compare(root: Path, kills: int, moments: random.Random) -> list[Trial]:
    """Two recipes under one seed; every second time only the comparison is killed, and its trainer lives on."""
    place = _compare_place(root / "compare")
    wanted, seconds = _uninterrupted(place, _compare, _comparison)
    trials = []
    for number in range(kills):
        place = _compare_place(root / f"compare-{number}")
        moment, alone = moments.uniform(0, seconds), number % 2 == 1
        process = start(place, *_compare(), command="compare")
        process.join(moment)
        _kill(process.pid, alone)
        process.join()
        statuses, end = [process.exitcode], time.monotonic() + PATIENCE
        while statuses[-1] and time.monotonic() < end:
            if len(statuses) > 1:  # its trainer is still at work
                time.sleep(1)
                statuses.pop()
            statuses.append(run(place, *_compare(), command="compare"))
        detail = f"after {moment:.1f} s, {'the comparison alone' if alone else 'with its trainer'}"
        trials.append(Trial("kill -9 of compare", detail, statuses, statuses[-1] == 0 and _comparison(place) == wanted))
        _report(trials[-1], place)
    return trials


def kill_encode(root: Path, kills: int, moments: random.Random, model: Path) -> list[Trial]:
    """Into parts."""
    place = _encode_place(root / "encode")
    wanted, seconds = _uninterrupted(place, lambda: _encode(model), _parts, "encode")
    trials = []
    for number in range(kills):
        place = _encode_place(root / f"encode-{number}")
        moment = moments.uniform(0, 0.8 * seconds)  # later it may have ended
        process = start(place, *_encode(model), command="encode")
        process.join(moment)
        _kill(process.pid)
        process.join()
        done = sorted((place / "out").glob("part-*.npy"))
        detail = f"after {moment:.1f} s, {len(done)} of {LINES // ROWS_PER_PART} parts done"
        statuses = [process.exitcode, run(place, *_encode(model), command="encode")]
        trials.append(Trial("kill -9 of encode", detail, statuses, statuses[-1] == 0 and _parts(place) == wanted))
        _report(trials[-1], place)
    return trials


def together(root: Path, wanted: str) -> list[Trial]:
    """Three fits of one name, started at once."""
    place = workplace(root / "together")
    processes = [start(place) for _ in range(3)]
    for process in processes:
        process.join()
    whole = []
    for folder in (place / "runs" / "run").iterdir():
        lasts = list((folder / "checkpoints").glob("last*.ckpt"))
        whole.append(
            len(lasts) == len(list(folder.glob("config*.yaml"))) == 1
            and (folder / "model" / "model.safetensors").exists()
            and fingerprint_of(lasts[0]) == wanted
        )
    detail = f"{len(whole)} folders, {sum(whole)} complete"
    trial = Trial("three fits at once", detail, [process.exitcode for process in processes], whole == [True] * 3)
    _report(trial, place)
    return [trial]


def _uninterrupted(
    place: Path, words: Callable[[], list[str]], result: Callable[[Path], str], command: str = "compare"
) -> tuple[str, float]:
    """The result, and how long it took."""
    begun = time.monotonic()
    if status := run(place, *words(), command=command):
        sys.exit(f"{command} ended with status {status}: {(place / 'log.txt').read_text()[-2000:]}")
    seconds = time.monotonic() - begun
    print(f"uninterrupted {command}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return result(place), seconds


def _kill(process: int, alone: bool = False) -> None:
    """With everything that it started, unless ``alone``."""
    with contextlib.suppress(ProcessLookupError):  # has ended
        (os.kill if alone else os.killpg)(process, signal.SIGKILL)


def _compare_place(folder: Path) -> Path:
    """Two recipes whose best checkpoint is not the last one."""
    place = workplace(folder)
    for name, rate in (("slow", 1e-3), ("fast", 1e-2)):
        config = copy.deepcopy(CONFIG)
        config["model"]["optimizer"]["init_args"]["lr"] = rate
        config["trainer"] |= {"max_steps": 30, "val_check_interval": 8}
        config["checkpoint"] = {"init_args": {"monitor": "val/sts"}}
        (place / f"{name}.json").write_text(json.dumps(config), encoding="utf-8")
    return place


def _compare() -> list[str]:
    return ["-c", "slow.json", "-c", "fast.json", "--seeds", "1", "--sets", "[toy-dev]"]


def _comparison(place: Path) -> str:
    """Hash of the table, byte for byte, and of every cosine."""
    digest = hashlib.sha256((place / "comparisons" / "report.md").read_bytes())
    for path in sorted((place / "comparisons").rglob("scores.npz")):
        with np.load(path) as arrays:
            for name in sorted(arrays):
                digest.update(name.encode() + arrays[name].tobytes())
    return digest.hexdigest()


def _encode_place(folder: Path) -> Path:
    from sentrep.data import toy

    folder.mkdir()
    (folder / "lines.txt").write_text("\n".join(toy.sentences(LINES)) + "\n", encoding="utf-8")
    return folder


def _encode(model: Path) -> list[str]:
    return [str(model), "--input", "lines.txt", "--output", "out", "--stored.rows_per_file", str(ROWS_PER_PART)]


def _parts(place: Path) -> str:
    """Hash of every file of the folder, byte for byte."""
    digest = hashlib.sha256()
    for path in sorted((place / "out").iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _report(trial: Trial, place: Path) -> None:
    print(f"{trial.fault}, {trial.detail}: {trial.statuses}, {trial.identical}", file=sys.stderr, flush=True)
    if not trial.identical:
        print((place / "log.txt").read_text()[-3000:], file=sys.stderr, flush=True)
