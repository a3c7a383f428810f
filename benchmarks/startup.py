"""How long `sentrep fit` takes to its first step, part by part; `sentrep encode` of ten sentences beside its peer.

    python benchmarks/startup.py [--lines 1000000] [--shape 6x384] [--repeats 3] [--json startup.json]
    python benchmarks/startup.py --corpus wiki1m.txt.xz --model-folder MINILM --lines 1000000

The corpus is tokenised once before anything is measured. Every run is a process of its own, from its start; times are
medians. The parts of ``fit``:

- import: starting Python and importing what the command needs
- configuration: merging and checking, up to the building of objects
- building: module, data module and Trainer from the configuration; the encoder's weights and tokenizer are read here
- data: finding the cache (the corpus is hashed), opening and checking it
- first step: from the first batch to the end of its optimiser step
- rest: all else up to there, the Trainer's own set-up for the most part

``encode`` is beside five lines of Python with sentence-transformers, in seconds of the processor: *cold* without cached
bytecode, as after an installation, and *warm*. With ``--parts`` it is the process that is measured.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import harness
import inputs
import tables

PARTS = ("import", "configuration", "building", "data", "first step", "rest")
STATES = ("cold", "warm")
SENTENCES = 10
PEER = """
import sys, numpy
from sentence_transformers import SentenceTransformer
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
numpy.save(sys.argv[3], SentenceTransformer(sys.argv[1], device="cpu").encode(lines))
"""


class Stopwatch:
    """Adds up the seconds that methods take, from the outside."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.starts: dict[str, float] = {}
        self.ends: dict[str, float] = {}
        self._running: list[str] = []

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Time every call of ``owner.name`` as part of ``part``, unless it is inside another watched call."""
        inner: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return inner(*args, **kwargs)
            self._running.append(part)
            start = time.time()
            self.starts.setdefault(part, start)
            try:
                return inner(*args, **kwargs)
            finally:
                self._running.pop()
                self.ends.setdefault(part, time.time())
                self.seconds[part] = self.seconds.get(part, 0.0) + time.time() - start

        setattr(owner, name, timed)


def parts(started: float, file: str, words: list[str]) -> None:
    """Run ``sentrep fit`` in this process and write the seconds of every part to a file."""
    from sentrep.cli import main, run
    from sentrep.data import SentRepDataModule
    from sentrep.module import SentRepModule

    imported = time.time()
    clock = Stopwatch()
    clock.watch(SentRepDataModule, "prepare_data", "data")
    clock.watch(SentRepDataModule, "setup", "data")
    clock.watch(SentRepDataModule, "train_dataloader", "data")
    clock.watch(SentRepModule, "optimizer_step", "first step")
    clock.watch(run.SentRepCLI, "instantiate_classes", "building")
    status = main(["fit", *words])
    if status:
        sys.exit(status)
    total = clock.ends["first step"] - started
    found = {"import": imported - started, "configuration": clock.starts["building"] - imported, **clock.seconds}
    found["rest"] = total - sum(found.values())
    Path(file).write_text(json.dumps({**found, "total": total}), encoding="utf-8")


def measure(options: argparse.Namespace, folder: str, temporary: Path) -> dict[str, Any]:
    """Seconds of the parts of ``fit``, and of the processor for the first vectors: every turn."""
    corpus = inputs.write_sentences(options.corpus, options.lines, temporary / "sentences.txt")
    ten, target = temporary / "ten.txt", str(temporary / "ten.npy")
    ten.write_text("\n".join(Path(corpus).read_text(encoding="utf-8").splitlines()[:SENTENCES]) + "\n")
    fit = [
        f"--model.encoder.backbone={folder}", "--model.objectives.simcse=Contrastive", f"--data.train={corpus}",
        "--data.batch_size=8", "--trainer.max_steps=1", f"--trainer.accelerator={options.device}",
    ]  # fmt: skip
    ours = ["-m", "sentrep", "encode", folder, "--input", str(ten), "--output", target, "--overwrite", "true"]
    programs = {"sentrep": [*ours, "--device", "cpu"]}
    if harness.present([harness.PEER], {harness.PEER: ["sentence_transformers"]}):
        programs[harness.PEER] = ["-c", PEER, folder, str(ten), target]
    times = temporary / "parts.json"
    fits, encodes = [], []
    for turn in range(options.repeats + 1):
        _run([__file__, "--parts", str(time.time()), str(times), *fit], temporary)
        if turn == 0:  # tokenises the corpus, and warms the disk's cache
            continue
        fits.append(json.loads(times.read_text(encoding="utf-8")))
        encodes.append(
            {
                f"{name}, {state}": _run(words, temporary, f"bytecode-{name}-{turn}")
                for state in STATES
                for name, words in programs.items()
            }
        )
        print(f"fit {fits[-1]['total']:.2f} s, encode {encodes[-1]}", file=sys.stderr, flush=True)
    return {"fit": fits, "encode": encodes}


def _run(words: list[str], folder: Path, bytecode: str | None = None) -> float:
    """Run a Python process with the bytecode of this name; return its seconds of the processor."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["HF_DATASETS_CACHE"] = str(folder / "cache")
    if bytecode is not None:
        environment |= {"PYTHONPYCACHEPREFIX": str(folder / bytecode), "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(options: argparse.Namespace) -> dict[str, Any]:
    """By model, what `measure` finds."""
    with tempfile.TemporaryDirectory() as temporary:
        models = harness.folders(options, Path(temporary))
        return {"models": {model: measure(options, folder, Path(temporary)) for model, folder in models.items()}}


def report(found: dict[str, Any]) -> str:
    """Medians in Markdown."""
    text = ""
    for part, unit in (("fit", "fit to its first step, s"), ("encode", f"{SENTENCES} sentences, processor s")):
        columns = list(next(iter(found["models"].values()))[part][0])
        lines = [
            [model, *(f"{median(turn[name] for turn in turns[part]):.2f}" for name in columns)]
            for model, turns in found["models"].items()
        ]
        text += tables.table([f"{unit}: model", *columns], lines) + "\n"
    return text


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("Time to the first step and to the first vectors.", lines=1_000_000)
    found.set_defaults(repeats=3)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--parts"]:
        parts(float(sys.argv[2]), sys.argv[3], sys.argv[4:])
    else:
        harness.main(parser(), run, report)
