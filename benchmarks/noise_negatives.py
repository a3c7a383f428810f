"""DCLR's refined noise: the closed form against the published formulation, in time and memory.

Both compute the noise after four steps and the InfoNCE loss over [in-batch | noise], with its gradient with respect to
anchors and positives. The published formulation is an N×M×D broadcast cosine with autograd through every step; ours is
`sentrep.functional.refine_noise` and `info_nce`. The two are timed in turns in one process, after a check that they
give the same noise, loss and gradient; the peak memory of each is read in a process of its own.

    python benchmarks/noise_negatives.py [--threads 1] [--repeats 5] [--json results.json]

Needs Linux (/proc) for the memory.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from sentrep.functional import info_nce, refine_noise

TEMPERATURE, STEPS, STEP_SIZE, WIDTH = 0.05, 4, 1e-3, 768
SIZES = [(128, 1.0), (512, 2.5)]  # (N, k): M = k·N
FALLBACK = (256, 2.5)  # where the broadcast of the last size does not fit into memory
BROADCASTS_HELD = 6  # N×M×D tensors at the peak of the published formulation, measured at N=128; see `_fits`


def published(noise: Tensor, anchors: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    """As the authors' code does it: broadcast cosines, and autograd for every step."""

    def similarity(x: Tensor, y: Tensor) -> Tensor:
        return F.cosine_similarity(x[:, None], y[None], dim=-1) / TEMPERATURE

    labels = torch.arange(len(anchors))
    in_batch = similarity(anchors, positives)
    for _ in range(STEPS):
        noise = noise.detach().requires_grad_()
        logits = torch.cat([in_batch.detach(), similarity(anchors.detach(), noise)], dim=1)
        (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels), noise)
        direction = gradient / gradient.norm(dim=1, keepdim=True)
        noise = noise + STEP_SIZE * direction.nan_to_num(0.0)
    noise = noise.detach()
    return noise, F.cross_entropy(torch.cat([in_batch, similarity(anchors, noise)], dim=1), labels)


def ours(noise: Tensor, anchors: Tensor, positives: Tensor) -> tuple[Tensor, Tensor]:
    """The closed form."""
    noise = refine_noise(
        noise, anchors, positives,
        temperature=TEMPERATURE, steps=STEPS, step_size=STEP_SIZE, denominator="batch_and_noise",
    )  # fmt: skip
    return noise, info_nce(anchors, positives, temperature=TEMPERATURE, negatives=noise)


WAYS = {"published": published, "ours": ours}


def run(way: str, rows: int, ratio: float) -> list[Tensor]:
    """Noise, loss and the gradients of anchors and positives."""
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randn(rows, WIDTH, generator=generator)
    positives = (anchors + 0.5 * torch.randn(rows, WIDTH, generator=generator)).requires_grad_()
    noise = torch.randn(round(ratio * rows), WIDTH, generator=generator)
    anchors.requires_grad_()
    noise, loss = WAYS[way](noise, anchors, positives)
    loss.backward()
    assert anchors.grad is not None
    assert positives.grad is not None
    return [noise, loss.detach(), anchors.grad, positives.grad]


def seconds(rows: int, ratio: float, repeats: int) -> dict[str, float]:
    """Medians of runs in turns; refuses to compare what differs."""
    for mine, theirs in zip(run("ours", rows, ratio), run("published", rows, ratio), strict=True):  # also warms up
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way, taken in times.items():
            start = time.perf_counter()
            run(way, rows, ratio)
            taken.append(time.perf_counter() - start)
        print("  " + ", ".join(f"{way} {taken[-1]:.4f} s" for way, taken in times.items()), file=sys.stderr)
    return {way: statistics.median(taken) for way, taken in times.items()}


def extra_memory(way: str, rows: int, ratio: float, threads: int) -> float:
    """MiB by which a run of its own raises the resident peak of a fresh process."""
    command = [sys.executable, __file__, "--measure", way, str(rows), str(ratio), "--threads", str(threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _measure(way: str, rows: int, ratio: float) -> None:
    run(way, 8, 1.0)  # threads, workspaces, autograd's own
    before = _kib("/proc/self/status", "VmRSS")
    run(way, rows, ratio)
    print((_kib("/proc/self/status", "VmHWM") - before) / 1024)


def _kib(file: str, key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB", Path(file).read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{file} has no {key}; this benchmark needs Linux")
    return int(found[1])


def _fits(rows: int, ratio: float) -> bool:
    needed = BROADCASTS_HELD * rows * round(ratio * rows) * WIDTH * 4 / 1024
    available = _kib("/proc/meminfo", "MemAvailable")
    if needed < 0.9 * available:
        return True
    print(
        f"N={rows}, k={ratio:g}: the broadcast needs about {needed / 2**20:.0f} GiB, {available / 2**20:.0f} GiB are "
        f"available; measured at N={FALLBACK[0]}, k={FALLBACK[1]:g} instead.",
        file=sys.stderr,
    )
    return False


def measure_all(repeats: int, threads: int) -> list[dict[str, float]]:
    """One record for each size."""
    records = []
    for rows, ratio in SIZES:
        if not _fits(rows, ratio):
            rows, ratio = FALLBACK
        print(f"measuring N={rows}, k={ratio:g}", file=sys.stderr)
        memory = {way: extra_memory(way, rows, ratio, threads) for way in WAYS}
        times = seconds(rows, ratio, repeats)
        records.append(
            {
                "N": rows, "k": ratio, "M": round(ratio * rows), "D": WIDTH,
                "published_seconds": times["published"], "seconds": times["ours"],
                "published_extra_mib": memory["published"], "extra_mib": memory["ours"],
            }
        )  # fmt: skip
    return records


def table(records: list[dict[str, float]]) -> str:
    """The records in Markdown."""
    lines = [
        "| N | k | M | published, s | ours, s | faster | published, extra MiB | ours, extra MiB | less memory |",
        "| ---: " * 9 + "|",
    ]
    for r in records:
        faster, smaller = r["published_seconds"] / r["seconds"], r["published_extra_mib"] / r["extra_mib"]
        lines.append(
            f"| {r['N']} | {r['k']:g} | {r['M']} | {r['published_seconds']:.3f} | {r['seconds']:.4f} | {faster:.0f}× | "
            f"{r['published_extra_mib']:.0f} | {r['extra_mib']:.1f} | {smaller:.0f}× |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "N", "K"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.measure:
        way, rows, ratio = arguments.measure
        _measure(way, int(rows), float(ratio))
        return
    records = measure_all(arguments.repeats, arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), median of {arguments.repeats} runs in turns\n")
    print(table(records))
    if arguments.json:
        setting = {"torch": torch.__version__, "threads": arguments.threads, "repeats": arguments.repeats}
        arguments.json.write_text(json.dumps({**setting, "sizes": records}, indent=1))


if __name__ == "__main__":
    main()
