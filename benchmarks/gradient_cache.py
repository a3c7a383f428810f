"""Gradient caching beside the plain pass: peak memory and time of a SimCSE step at growing batch sizes.

    python benchmarks/gradient_cache.py [--batch-sizes 64 256 1024 4096] [--chunk 32] [--json results.json]

An encoder of MiniLM's shape (6 layers, 384 wide, random weights), sentences of 8 to 32 tokens, forward, backward and
AdamW. Each size and way runs in a process of its own, whose largest resident set it reads (``VmHWM``, Linux); the plain
pass is left out above ``--plain-up-to`` rows. Time is the median of the steps after the first.
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
from machine import memory_mib

from sentrep import SentenceEncoder, SentRepModule, TextBatch
from sentrep.distributed import step_draws
from sentrep.encoder import Compute
from sentrep.objectives import Contrastive
from sentrep.types import TokenBatch

SHAPE = {
    "model_type": "bert", "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "pad_token_id": 0,
}  # fmt: skip


def main() -> None:
    """Measure every size, or (``--one``) a single one in this process."""
    options = _options()
    if options.one is not None:
        print(json.dumps(measure(*options.one, options)))
        return
    rows = []
    print("| batch | plain, MiB | cached, MiB | plain, s | cached, s | time ratio | cached ÷ cached at the smallest |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in options.batch_sizes:
        plain = _in_process(size, 0) if size <= options.plain_up_to else None
        cached = _in_process(size, options.chunk)
        rows.append({"batch": size, "plain": plain, "cached": cached})
        growth = cached["peak_mib"] / rows[0]["cached"]["peak_mib"]
        left = (f"{plain['peak_mib']:.0f}", f"{plain['seconds']:.2f}") if plain else ("", "")
        ratio = f"{cached['seconds'] / plain['seconds']:.2f}" if plain else ""
        right = (f"{cached['peak_mib']:.0f}", f"{cached['seconds']:.2f}")
        cells = (size, left[0], right[0], left[1], right[1], ratio, f"{growth:.2f}")
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps({"chunk": options.chunk, "rows": rows}, indent=2) + "\n")


def measure(size: int, chunk: int, options: argparse.Namespace) -> dict[str, float]:
    """Peak memory and seconds per step of one batch size; chunk 0 is the plain pass."""
    torch.set_num_threads(options.threads)
    encoder = SentenceEncoder(SHAPE, tokenizer="toy", compute=Compute(rows_at_once=chunk or None))
    module = SentRepModule(encoder, [Contrastive()])
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5)
    batch = _batch(size)
    seconds = []
    for step in range(options.steps + 1):
        start = time.perf_counter()
        with step_draws(0, 0, step), torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss, _ = module.objectives(module.views_of(batch), batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    return {"peak_mib": memory_mib("VmHWM"), "seconds": median(seconds[1:])}


def _batch(size: int) -> TextBatch:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(8, 33, (size, 1), generator=generator)
    mask = (torch.arange(32) < lengths).long()
    ids = torch.randint(5, 4000, (size, 32), generator=generator) * mask
    return TextBatch(TokenBatch(ids, mask), None, None, torch.arange(size))


def _in_process(size: int, chunk: int) -> dict[str, float]:
    command = [sys.executable, __file__, *sys.argv[1:], "--one", str(size), str(chunk)]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--chunk", type=int, default=32, help="rows_at_once")
    parser.add_argument("--plain-up-to", type=int, default=1024, help="largest batch of the plain pass")
    parser.add_argument("--steps", type=int, default=2, help="measured steps")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, nargs=2, metavar=("SIZE", "CHUNK"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
