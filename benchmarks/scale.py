"""Start-up and memory of training data: the tokenised cache (built, opened again) and streaming, at growing sizes.

    python benchmarks/scale.py [--lines 100000 1000000 10000000] [--batches 200] [--json scale.json]

For every size it writes a text file of different sentences into a temporary folder and measures, each in a process of
its own, the time from `SentRepDataModule.setup` to the first batch, the rate of the batches after it, and the largest
resident set (``VmHWM``, Linux), beside the resident set before the data were touched. The mapped pages of an opened
cache count as resident although the system may drop them. The last column is the rate of reading, checking and
shuffling without tokenising.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from machine import memory_mib

from sentrep.data import Reading, SentRepDataModule, StreamedBatches, open_corpus
from sentrep.encoder import SentenceEncoder

SHAPE = {
    "model_type": "bert", "vocab_size": 4000, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 64, "pad_token_id": 0,
}  # fmt: skip
WAYS = ("cache, built", "cache, opened", "streaming")
_COLUMNS = ("to first batch, s", "rows/s", "peak, MiB", "before, MiB", "reading alone, rows/s")


def main() -> None:
    """Measure every size, or (``--one``) a single one in this process."""
    options = _options()
    if options.one is not None:
        print(json.dumps(measure(*options.one, options)))
        return
    rows: list[dict[str, Any]] = []
    print(f"| lines | way | {' | '.join(_COLUMNS)} |\n| ---: | --- |{' ---: |' * len(_COLUMNS)}")
    for lines in options.lines:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder) / "text.txt", lines)
            for way in WAYS:
                found = _in_process(way, folder)
                rows.append({"lines": lines, "way": way, **found})
                cells = [f"{found[name]:,.1f}" if name in found else "" for name in _COLUMNS]
                print(f"| {lines:,} | {way} | {' | '.join(cells)} |", flush=True)
                if options.json is not None:
                    options.json.write_text(
                        json.dumps({"batch_size": options.batch_size, "rows": rows}, indent=2) + "\n"
                    )


def measure(way: str, folder: str, options: argparse.Namespace) -> dict[str, float]:
    """One way at one size."""
    encoder = SentenceEncoder(SHAPE, tokenizer="toy")
    before = memory_mib("VmRSS")
    reading = Reading(cache_dir=f"{folder}/cache", streaming=way == "streaming")
    data = SentRepDataModule(f"{folder}/text.txt", batch_size=options.batch_size, reading=reading)
    data.connect(encoder.tokenize, encoder.max_length)
    start = time.perf_counter()
    data.setup("fit")
    batches = iter(data.train_dataloader())
    next(batches)
    first = time.perf_counter()
    count = sum(1 for _ in islice(batches, options.batches))
    seconds = time.perf_counter() - first
    found = {
        "to first batch, s": first - start,
        "rows/s": count * options.batch_size / seconds,
        "peak, MiB": memory_mib("VmHWM"),
        "before, MiB": before,
    }
    if way == "streaming":
        found["reading alone, rows/s"] = _reading_rate(f"{folder}/text.txt", options)
    return found


def _reading_rate(path: str, options: argparse.Namespace) -> float:
    start = time.perf_counter()
    order = StreamedBatches(open_corpus(path), options.batch_size)
    count = sum(1 for _ in islice(order, options.batches))
    return count * options.batch_size / (time.perf_counter() - start)


def _write(path: Path, lines: int) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero"]
    with path.open("w") as file:
        for number in range(lines):
            digits = [words[int(digit)] for digit in f"{number * 7919 % 10**9:09d}"]
            file.write(f"the number {' '.join(digits)} is written in a file of many lines\n")


def _in_process(way: str, folder: str) -> dict[str, float]:
    command = [sys.executable, __file__, *sys.argv[1:], "--one", way, folder]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=200, help="measured batches after the first")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
