"""All that is tested and measured on a GPU, by one command: correctness, training, encoding, loader.

    python benchmarks/gpu.py [--json gpu.json] [--markdown gpu.md] [--minutes 8]
    python benchmarks/gpu.py --device cpu --quick       # to try the script out: tiny shapes, about a minute

It needs torch, lightning, transformers, datasets, torchmetrics and what they bring; sentence-transformers takes part
where it is installed. Everything runs in this process, so the kernels of one measurement are warm in the next, for
all variants alike. What would go beyond the time is left out and named in the report, the most important comes first.
A part that fails is named there too, a variant that fails on standard error, and the others go on. First, outside of
the minutes, ``tests/test_on_gpu.py`` compares the GPU with the CPU: loss and gradients of every plug-in, steps in bf16,
compiled, in a group of one process, and resumed; this needs pytest. What each part
does: train_throughput.py, encode_throughput.py, loader_throughput.py.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import encode_throughput
import harness
import loader_throughput
import machine
import tables
import train_throughput

NO_GPU = "No CUDA device on this machine: nothing was measured."
_OTHERS = "--objective gs dclr denosent"


@dataclass(frozen=True)
class Part:
    """One table of the report."""

    title: str
    until: float
    """The share of the time after which no further setting begins."""
    script: ModuleType
    words: str
    """Its command line."""

    def run(self, device: str, until: float) -> dict[str, Any]:
        """Measure, see ``run`` of the script."""
        words = [*self.words.split(), "--one-process", "--device", device]
        found: dict[str, Any] = self.script.run(harness.parse(self.script.parser(), words), until)
        return found


def plan(quick: bool) -> list[Part]:
    """What is measured, the most important first; ``quick`` has a bit of everything."""
    if quick:
        tiny = "--shape tiny --batch-size 4 --repeats 1"
        steps = f"{tiny} --steps 2 --warmup 1 --matrix 128 --precision"
        return [
            Part("Training, SimCSE", 1.0, train_throughput, f"{steps} fp32 bf16"),
            Part("Training, other objectives", 1.0, train_throughput, f"{steps} fp32 {_OTHERS}"),
            Part("Encoding", 1.0, encode_throughput, f"{tiny} --sentences 40"),
            Part("Loader", 1.0, loader_throughput, f"{tiny} --lines 200 --batches 5 --warmup 1 --workers 0"),
        ]
    shapes = "--shape bert-base 6x384 bert-mini"
    steps = f"{shapes} --steps 20 --warmup 5 --precision"
    bf16 = f"{steps} bf16 --batch-size 512 256 64 --repeats 3"
    encoding = f"{shapes} --sentences 20000 --batch-size 256 --precision bf16 fp32 --repeats 3"
    loading = "--shape bert-base --lines 200000 --batch-size 64 512 --workers 0 4 --repeats 1"
    return [
        Part("Training, SimCSE, bf16", 0.45, train_throughput, bf16),
        Part("Training, SimCSE, fp32 (no TF32)", 0.55, train_throughput, f"{steps} fp32 --batch-size 64 --repeats 3"),
        Part("Encoding", 0.75, encode_throughput, encoding),
        Part("Loader", 0.82, loader_throughput, loading),
        Part("Training, other objectives, bf16", 0.97, train_throughput, f"{bf16} {_OTHERS}"),
    ]


def correctness() -> str:
    """What the tests on a GPU say: their last lines."""
    tests = Path(__file__).parents[1] / "tests"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
    files = ["test_on_gpu.py", "test_fake_cuda.py", "negatives/test_contract.py"]
    done = subprocess.run([*command, *(str(tests / file) for file in files)], capture_output=True, text=True)
    lines = (done.stdout + done.stderr).strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return "\n".join(f"    {line}" for line in [*failed, lines[-1]])


def main() -> None:
    """Measure and report."""
    options = _options()
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        tables.write(NO_GPU + "\n", {"environment": machine.environment("cpu", None)}, options.markdown, options.json)
        return
    about = machine.environment(options.device, torch.get_num_threads())
    text, results = "", {}
    if options.device == "cuda":
        text = f"## Correctness\n\n{correctness()}\n\n"
    start = time.monotonic()
    for part in plan(options.quick):
        try:
            found = part.run(options.device, start + part.until * options.minutes * 60)
            results[part.title] = found
            text += f"## {part.title}\n\n{part.script.report(found)}\n"
        except (Exception, SystemExit) as error:  # the minutes of the other parts would be lost
            text += f"## {part.title}\n\nFailed: {error!r}\n\n"
    text += f"{(time.monotonic() - start) / 60:.1f} minutes. " + tables.in_words(about)
    tables.write(text, {"environment": about, "parts": results}, options.markdown, options.json)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0, help="no measurement of a new setting begins later")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
