"""Processor time of a new process from its start to the vectors of ten sentences, beside sentence-transformers.

    python benchmarks/first_vectors.py --model-folder MINILM [--repeats 5] [--markdown first.md]

Both programs take turns: `sentrep encode`, and a script of five lines by sentence-transformers. *Cold* is without
cached bytecode, as after an installation; *warm* is the next start.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import harness
import machine
import tables

_PEER = """
import sys, numpy
from sentence_transformers import SentenceTransformer
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
numpy.save(sys.argv[3], SentenceTransformer(sys.argv[1], device="cpu").encode(lines))
"""


def main() -> None:
    """Measure and report."""
    options = _options()
    turns: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "ten.txt").write_text("".join(f"Sentence number {n} of ten.\n" for n in range(10)), encoding="utf-8")
        for turn in range(options.repeats):
            for state in ("cold", "warm"):
                seconds = {name: _seconds(name, options.model_folder[0], folder, turn) for name in _words("", folder)}
                turns[state].append(seconds)
                print(state, seconds, file=sys.stderr, flush=True)
    rows = [[state, *_row(found)] for state, found in turns.items()]
    columns = ["bytecode", *_words("", Path()), "sentence-transformers ÷ sentrep (range)"]
    about = machine.environment("cpu", 1)
    text = tables.table(columns, rows) + "\n" + tables.in_words(about)
    tables.write(text, {"environment": about, "turns": turns}, options.markdown, options.json)


def _options() -> argparse.Namespace:
    return harness.parse(harness.parser("Time to the first vectors."), corpus_needed=False)


def _words(model: str, folder: Path) -> dict[str, list[str]]:
    text, target = str(folder / "ten.txt"), str(folder / "ten.npy")
    ours = f"-m sentrep encode {model} --input {text} --output {target} --overwrite true --device cpu".split()
    return {"sentrep": ours, "sentence-transformers": ["-c", _PEER, model, text, target]}


def _seconds(name: str, model: str, folder: Path, turn: int) -> float:
    """Of the processor, in a process with the bytecode of this turn."""
    bytecode = {
        "PYTHONPYCACHEPREFIX": str(folder / f"bytecode-{name}-{turn}"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    environment = {**os.environ, **bytecode, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *_words(model, folder)[name]], cwd=folder, env=environment, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _row(turns: list[dict[str, float]]) -> list[str]:
    ours, peer = ([turn[name] for turn in turns] for name in ("sentrep", "sentence-transformers"))
    ratios = [b / a for a, b in zip(ours, peer, strict=True)]
    return [f"{median(ours):.1f}", f"{median(peer):.1f}", f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"]


if __name__ == "__main__":
    main()
