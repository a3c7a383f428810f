"""All that is tested and measured on a GPU, by one command, in six minutes: correctness, training, objectives.

    python benchmarks/gpu.py [--json gpu.json] [--markdown gpu.md] [--minutes 6]
    python benchmarks/gpu.py --device cpu --quick       # to try the script out: tiny shapes, about a minute

It needs torch, lightning, transformers, datasets and what they bring; sentence-transformers takes part where it is
installed. First ``tests/test_on_gpu.py`` compares the GPU with the CPU: loss and gradients of every
plug-in, steps in bf16, compiled, in a group of one process, and resumed; this needs pytest. Then training is measured
in this process, so the kernels of one measurement are warm in the next, for all variants alike. What would go beyond
the time is left out and named in the report. A part that fails is named there too, a variant that fails on standard
error, and the others go on. What each part does: train_throughput.py, objective_costs.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import harness
import machine
import objective_costs
import tables
import train_throughput
from harness import GRAPHS, HAND_COMPILED, OURS, PEER, PLAIN

NO_GPU = "No CUDA device on this machine: nothing was measured."
VARIANTS = ["--variants", PEER, PLAIN, OURS, GRAPHS, HAND_COMPILED]


@dataclass(frozen=True)
class Part:
    """One table of the report."""

    title: str
    until: float
    """The share of the time after which no further setting begins."""
    script: ModuleType
    words: list[str]
    """Its command line."""

    def run(self, device: str, until: float) -> dict[str, Any]:
        """Measure, see ``run`` of the script."""
        words = [*self.words, "--one-process", "--device", device]
        found: dict[str, Any] = self.script.run(harness.parse(self.script.parser(), words), until)
        return found


def plan(quick: bool) -> list[Part]:
    """What is measured, the most important first; ``quick`` has a bit of everything."""
    if quick:
        tiny = ["--shape", "tiny", "--batch-size", "8", "--repeats", "1", "--steps", "2", "--warmup", "1"]
        training = [*tiny, "--precision", "fp32", "bf16", "--matrix", "128"]
        objectives = [*tiny, "--precision", "bf16"]
    else:
        base = ["--shape", "bert-base", "--precision", "bf16"]
        training = [*base, "--batch-size", "512", "64", "--repeats", "1", "--steps", "20", "--warmup", "10"]
        objectives = [*base, "--batch-size", "64", "--repeats", "1", "--steps", "10", "--warmup", "3"]
    return [
        Part("Training, SimCSE", 0.7, train_throughput, [*training, *VARIANTS]),
        Part("Training, other objectives", 0.95, objective_costs, [*objectives, "--without-six"]),
    ]


def correctness(seconds: float) -> str:
    """What the tests on a GPU say: failed ones, and the last line; they are stopped after so many seconds."""
    file = Path(__file__).parents[1] / "tests" / "test_on_gpu.py"
    side_by_side = ["-n", "8"] if importlib.util.find_spec("xdist") else []  # 135 tests took 78 seconds so
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *side_by_side, str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"    stopped after {seconds:.0f} seconds, not all have run"
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
    start, seconds = time.monotonic(), options.minutes * 60
    if options.device == "cuda":
        text = f"## Correctness\n\n{correctness(0.4 * seconds)}\n\n"
    for part in plan(options.quick):
        try:
            found = part.run(options.device, start + part.until * seconds)
            results[part.title] = found
            text += f"## {part.title}\n\n{part.script.report(found)}\n"
        except (Exception, SystemExit) as error:  # the minutes of the other parts would be lost
            text += f"## {part.title}\n\nFailed: {error!r}\n\n"
    text += f"{(time.monotonic() - start) / 60:.1f} minutes. " + tables.in_words(about)
    tables.write(text, {"environment": about, "parts": results}, options.markdown, options.json)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--minutes", type=float, default=6.0, help="no measurement of a new setting begins later")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
