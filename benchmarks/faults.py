"""The crash suite: a run is killed, starved of disk and given damaged files, and must end as if nothing had happened.

    python benchmarks/faults.py --kills 20 --json benchmarks/results/faults.json

Each trial starts a small ``sentrep fit`` in a folder of its own, does its harm, goes on with ``--ckpt_path last`` until
the run has finished, and compares a hash of all final weights (encoder, samplers and their extra state, decoder) and of
the optimiser's state with the uninterrupted run's. Memory bank, Gaussian mixture, refined noise and denoising are
active. ``kill -9`` comes at moments spread at random over the wall time of the run, from its first line to its last;
the other faults come when the run has written a few checkpoints.

The processes are forked from one that has imported everything, so the time of a run is that of its own work. Linux or
macOS; the full disk needs root (it mounts a small file system), and is left out otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from sentrep.cli import main as sentrep
from sentrep.cli import trainer  # noqa: F401 (imported before the fork, so that no child has to)

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


def main() -> None:
    """Run the suite; the exit status is 1 where a run did not end as the uninterrupted one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="how often to kill -9")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", nargs="+", metavar="FAULT", help="of the other faults, only those with these names")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        trials = _run_all(Path(root), options)
    print(_table(trials))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n", encoding="utf-8")
    if not all(trial.identical for trial in trials):
        sys.exit(1)


def _run_all(root: Path, options: argparse.Namespace) -> list[Trial]:
    """The reference, then every fault."""
    start = time.monotonic()
    reference = _workplace(root / "reference")
    status = _fit(reference)
    seconds = time.monotonic() - start
    if status:
        sys.exit(f"the uninterrupted run ended with status {status}: {(reference / 'log.txt').read_text()[-2000:]}")
    wanted = _fingerprint(reference)
    print(f"uninterrupted: {seconds:.1f} s", file=sys.stderr, flush=True)
    moments = random.Random(options.seed)
    faults: list[tuple[str, Callable[[Path], tuple[str, list[int]]]]] = []
    for _ in range(options.kills):
        moment = moments.uniform(0, seconds)
        faults.append(("kill -9", lambda place, moment=moment: _signal(place, signal.SIGKILL, moment)))
    faults += [
        ("SIGTERM", lambda place: _signal(place, signal.SIGTERM)),
        ("SIGINT", lambda place: _signal(place, signal.SIGINT)),
        ("truncated checkpoint", lambda place: _damage(place, _cut)),
        ("bit-flipped checkpoint", lambda place: _damage(place, _flip)),
        ("cache folder deleted", lambda place: _damage(place, _delete_cache)),
        ("cache file cut", lambda place: _damage(place, _cut_cache)),
        ("cache folder gone in the run", _unplug),
    ]
    if os.geteuid() == 0:
        faults.append(("full disk", _full_disk))
    if options.only:
        faults = [(name, harm) for name, harm in faults if name == "kill -9" or name in options.only]
    trials = []
    for number, (fault, harm) in enumerate(faults):
        place = _workplace(root / str(number))
        detail, statuses = harm(place)
        statuses += _finish(place)
        trials.append(Trial(fault, detail, statuses, statuses[-1] == 0 and _fingerprint(place) == wanted))
        print(f"{fault}, {detail}: {statuses}, identical: {trials[-1].identical}", file=sys.stderr, flush=True)
        if trials[-1].identical:
            shutil.rmtree(place)
        else:
            print((place / "log.txt").read_text()[-3000:], file=sys.stderr, flush=True)
    return trials


# --- one run ----------------------------------------------------------------------------------------------------------


def _workplace(folder: Path) -> Path:
    """A folder with configuration and corpus: 100 sentences, so that a run crosses epochs."""
    from sentrep.data import open_corpus

    folder.mkdir()
    rows = [row.sentences[0] for _, row in zip(range(100), open_corpus("toy").rows(), strict=False)]
    (folder / "corpus.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "run.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


def _start(folder: Path, *words: str) -> Any:
    process = multiprocessing.get_context("fork").Process(target=_child, args=(folder, words))
    process.start()
    return process


def _child(folder: Path, words: tuple[str, ...]) -> None:
    """``sentrep fit`` in the folder, as a shell would start it."""
    os.chdir(folder)
    os.environ["SENTREP_CACHE"] = "cache"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    with Path("log.txt").open("a", encoding="utf-8") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        status = sentrep(["fit", "-c", "run.json", *words])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _fit(folder: Path, *words: str) -> int:
    process = _start(folder, *words)
    process.join()
    status: int = process.exitcode
    return status


def _finish(folder: Path) -> list[int]:
    """Go on until the run has ended by itself, three times at most."""
    statuses = [_fit(folder, "--ckpt_path", "last")]
    while statuses[-1] and len(statuses) < 3:
        statuses.append(_fit(folder, "--ckpt_path", "last"))
    return statuses


def _fingerprint(folder: Path) -> str:
    """Hash of the last state: weights, extra state, optimiser."""
    (path,) = folder.rglob("last.ckpt")  # a damaged one has been set aside
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


# --- faults -----------------------------------------------------------------------------------------------------------


def _signal(folder: Path, number: int, moment: float | None = None) -> tuple[str, list[int]]:
    """Send a signal, after so many seconds or in the midst of training; returns when, at which step, and the status."""
    process = _start(folder)
    if moment is None:
        _wait_for_training(process, folder)
    else:
        process.join(moment)
    if process.is_alive():
        os.kill(process.pid, number)
    process.join()
    steps = [_step(path) for path in folder.rglob("*.ckpt")]
    saved = f"newest checkpoint: step {max(steps)}" if steps else "no checkpoint yet"
    return saved if moment is None else f"after {moment:.1f} s, {saved}", [process.exitcode]


def _wait_for_training(process: Any, folder: Path) -> None:
    """Until the run has written checkpoints of at least 12 steps."""
    while process.is_alive() and not any(int(path.stem[5:]) >= 12 for path in folder.rglob("step=*.ckpt")):
        time.sleep(0.02)


def _damage(folder: Path, harm: Callable[[Path], str]) -> tuple[str, list[int]]:
    _, statuses = _signal(folder, signal.SIGKILL)
    return harm(folder), statuses


def _newest(folder: Path) -> Path | None:
    return max(folder.rglob("*.ckpt"), key=lambda path: (_step(path), path.stat().st_mtime), default=None)


def _step(path: Path) -> int:
    step: int = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"]
    return step


def _cut(folder: Path) -> str:
    if (path := _newest(folder)) is None:
        return "no checkpoint to cut"
    os.truncate(path, path.stat().st_size // 2)
    return f"{path.name}, the newest, cut in half"


def _flip(folder: Path) -> str:
    if (path := _newest(folder)) is None:
        return "no checkpoint to change"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    return f"one bit of {path.name}, the newest"


def _delete_cache(folder: Path) -> str:
    shutil.rmtree(folder / "cache", ignore_errors=True)
    return "between two runs"


def _unplug(folder: Path) -> tuple[str, list[int]]:
    """The cache disappears under a process that trains, and is still away when the process ends."""
    process = _start(folder)
    _wait_for_training(process, folder)
    _delete_cache(folder)
    process.join()
    return "while it trains", [process.exitcode]


def _cut_cache(folder: Path) -> str:
    for path in (folder / "cache").rglob("*"):
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2)
    return "to half, between two runs"


def _full_disk(folder: Path) -> tuple[str, list[int]]:
    """The checkpoints' disk takes the first ones, then is full until the run has ended; then there is room again."""
    config = {
        **CONFIG,
        "checkpoint": {"init_args": {**CONFIG["checkpoint"]["init_args"], "dirpath": str(folder / "disk")}},
    }
    (folder / "run.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder / "disk")], check=True)
    try:
        process = _start(folder)
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


def _table(trials: list[Trial]) -> str:
    lines = ["| fault | detail | exit statuses | bit-identical end |", "| --- | --- | --- | --- |"]
    for trial in trials:
        verdict = "yes" if trial.identical else "NO"
        lines.append(f"| {trial.fault} | {trial.detail} | {', '.join(map(str, trial.statuses))} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
