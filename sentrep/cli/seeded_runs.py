"""The runs behind ``sentrep compare``: trained and scored once each, however often the command is interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sentrep.cli.configuration import parse_request
from sentrep.cli.errors import UsageError
from sentrep.data.sets.sts import PairsFile, load_sts
from sentrep.encoder import SentenceEncoder
from sentrep.errors import InputError
from sentrep.evaluation.runs import version_of
from sentrep.evaluation.training_report import MODEL
from sentrep.io.files import BusyError, atomic_write, hold, write_text
from sentrep.io.harmless import screen_text

SCORES = "scores.npz"
"""What a finished run leaves: cosines and gold scores of every set."""
TRAINED = "trained"
"""Marks a run whose training came to its end."""
INTERRUPTED = (130, 143)
"""Exit statuses of ``sentrep fit`` after Ctrl-C and SIGTERM."""


@dataclass(frozen=True)
class Run:
    """One run: a recipe under one seed."""

    label: str
    """Of the recipe, as the report prints it."""
    seed: int
    words: list[str]
    """Of ``sentrep fit``, without the folder."""
    folder: Path

    @property
    def settings(self) -> str:
        """Fingerprint of the words and of every file they name."""
        digest = hashlib.blake2b(digest_size=16)
        for flag, word in zip(["", *self.words], self.words, strict=False):
            digest.update(Path(word).read_bytes() if flag == "-c" else word.encode())
        return digest.hexdigest()


def train_all(runs: Sequence[Run], sets: list[str] | None, jobs: int = 1) -> dict[tuple[str, int], str]:
    """Do what is not done yet, ``jobs`` runs at a time; returns why runs failed."""
    _check(runs, sets)
    failures: dict[tuple[str, int], str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = progress.add_task("comparing", total=len(runs))
        futures = {pool.submit(_train_and_score, run, sets, jobs): run for run in runs}
        try:
            for future in as_completed(futures):
                run = futures[future]
                if reason := future.result():
                    failures[run.label, run.seed] = reason
                    progress.print(screen_text(f"{run.label}, seed {run.seed}: {reason}"))
                progress.update(task, advance=1, description=screen_text(f"done: {run.label}, seed {run.seed}"))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return failures


def _train_and_score(run: Run, sets: list[str] | None, jobs: int) -> str | None:
    """One run to its end, unless it has been there; returns why it failed."""
    if (run.folder / SCORES).exists():
        return None
    try:
        with hold(run.folder / "lock", "this run"):  # a trainer that outlives a killed comparison holds its own folder
            return _train(run, jobs) or _score(run, sets)
    except BusyError as error:
        return str(error)


def _check(runs: Sequence[Run], sets: list[str] | None) -> None:
    """Refuse to mix runs of different settings, before anything is trained."""
    for run in runs:
        for file in _files(run.words):
            if not Path(file).is_file():
                raise UsageError(f"compare: configuration file {file} does not exist")
        note = run.folder / "settings.json"
        settings = {"recipe": run.settings, "sets": sets}
        if note.exists() and json.loads(note.read_text(encoding="utf-8")) != settings:
            raise UsageError(
                f"compare: {run.folder} holds a run with other settings; choose another --output, or delete it"
            )
    for run in runs:
        run.folder.mkdir(parents=True, exist_ok=True)
        write_text(run.folder / "settings.json", json.dumps({"recipe": run.settings, "sets": sets}))


def _files(words: list[str]) -> Iterable[str]:
    return (word for flag, word in pairwise(words) if flag == "-c")


def _train(run: Run, jobs: int) -> str | None:
    """Run ``sentrep fit``, from its last checkpoint and in its folder where it was begun; returns why it failed."""
    if (run.folder / TRAINED).exists():
        return None
    words = [*run.words, "--trainer.logger.save_dir", str(run.folder), "--trainer.enable_progress_bar", "false"]
    if any(run.folder.rglob("*.ckpt*")) or not any(word.startswith("--ckpt_path") for word in run.words):
        words += ["--ckpt_path", "last"]  # in the same folder, so that the best checkpoint so far is remembered
    log = run.folder / "fit.log"
    share = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // jobs))} if jobs > 1 else {}
    with log.open("ab") as output:
        command = [sys.executable, "-m", "sentrep", "fit", *words]
        environment = {**share, **os.environ}
        done = subprocess.run(command, stdout=output, stderr=output, env=environment)
    if done.returncode == 0:
        (run.folder / TRAINED).touch()
        return None
    if done.returncode in INTERRUPTED:
        raise KeyboardInterrupt
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"training failed ({last[-1] if last else 'no message'}); see {log}"


def _score(run: Run, sets: list[str] | None) -> str | None:
    """Evaluate the trained model and write its cosines; returns why that failed."""
    request = parse_request(run.words)
    data = request.tree.get("data", {})
    folder = request.flags.get("data.sts_folder", data.get("sts_folder"))
    models = sorted(run.folder.glob(f"*/version_*/{MODEL}"), key=lambda path: version_of(path.parent))
    if not models:
        return f"training left no folder {MODEL}/; do not switch the report off (--report)"
    try:
        encoder = SentenceEncoder.from_pretrained(models[-1])
        arrays: dict[str, np.ndarray] = {}
        for name in sets or data.get("test", []):
            pairs = load_sts(PairsFile(**name) if isinstance(name, dict) else name, folder)
            arrays[f"cosine/{pairs.name}"] = encoder.pairwise_cosine(pairs.first, pairs.second, batch_size=64).numpy()
            arrays[f"gold/{pairs.name}"] = np.asarray(pairs.scores, dtype=np.float64)
    except InputError as error:
        return f"evaluation failed: {error}"
    if not arrays:
        raise UsageError(f"compare: {run.label} has no data.test; name the sets by --sets [sts12,stsb]")
    with atomic_write(run.folder / SCORES) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return None
