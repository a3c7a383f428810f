"""InfoNCE of a large batch: the whole similarity matrix against blocks of it, in time and memory.

Forward and backward of `sentrep.functional.info_nce` with N anchors and N positives of width D. The two ways are timed
in turns in one process, after a check that they give the same loss and gradients; how much each raises the resident
peak is read in a process of its own.

    python benchmarks/blocked_similarity.py [--sizes 4096 16384] [--width 384] [--repeats 3] [--json results.json]

Needs Linux (/proc) for the memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import torch
from harness import memory_mib
from torch import Tensor

from sentrep.functional import info_nce
from sentrep.functional.sum_in_chunks import rows_at_once

WAYS = ("plain", "blocked")


def run(way: str, rows: int, width: int) -> list[Tensor]:
    """Loss and the gradients of anchors and positives."""
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randn(rows, width, generator=generator)
    positives = (anchors + 0.5 * torch.randn(rows, width, generator=generator)).requires_grad_()
    anchors.requires_grad_()
    loss = info_nce(anchors, positives, temperature=0.05, block=0 if way == "plain" else rows_at_once(rows))
    return [loss.detach(), *torch.autograd.grad(loss, (anchors, positives))]


def seconds(rows: int, width: int, repeats: int) -> dict[str, float]:
    """Medians of runs in turns; refuses to compare what differs."""
    for plain, blocked in zip(*(run(way, rows, width) for way in WAYS), strict=True):  # also warms up
        torch.testing.assert_close(blocked, plain, rtol=1e-4, atol=1e-8)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, taken in times.items():
            start = time.perf_counter()
            run(way, rows, width)
            taken.append(time.perf_counter() - start)
    return {way: median(taken) for way, taken in times.items()}


def main() -> None:
    """Measure every size, or (``--one``) the memory of one way in this process."""
    options = _options()
    torch.set_num_threads(options.threads)
    if options.one is not None:
        print(extra_memory(options.one[0], int(options.one[1]), options.width))
        return
    results = []
    print("| N | way | seconds | extra MiB |")
    print("| ---: | --- | ---: | ---: |")
    for rows in options.sizes:
        taken = seconds(rows, options.width, options.repeats)
        for way in WAYS:
            command = [sys.executable, __file__, *sys.argv[1:], "--one", way, str(rows)]
            extra = float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            results.append({"rows": rows, "way": way, "seconds": taken[way], "extra_mib": extra})
            print(f"| {rows} | {way} | {taken[way]:.2f} | {extra:.0f} |", flush=True)
    print(f"width {options.width}, threads {options.threads}, torch {torch.__version__}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def extra_memory(way: str, rows: int, width: int) -> float:
    """MiB by which a run raises the resident peak of this process."""
    run(way, 256, width)  # threads, workspaces, autograd's own
    before = memory_mib("VmRSS")
    run(way, rows, width)
    return memory_mib("VmHWM") - before


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("WAY", "SIZE"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
