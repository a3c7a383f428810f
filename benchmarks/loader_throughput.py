"""How fast training text becomes batches: the tokenised cache, built and opened again, and streaming.

    python benchmarks/loader_throughput.py [--lines 100000 1000000] [--batch-size 64 512] [--workers 0 2]

Made-up sentences, or the first ones of ``--corpus``, go through `SentRepDataModule`. Every measurement is a process of
its own: the time from its ``setup`` to the first batch, the rate of the batches after the warm-up, and the largest
resident set. The mapped pages of an opened cache count as resident, although the system may drop them. With ``--device
cuda`` every batch is copied onto the GPU.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness
import inputs
import machine
from harness import Job

BUILT, OPENED, STREAMED = WAYS = "cache, built", "cache, opened", "streaming"


def measure(job: Job) -> dict[str, Any]:
    """One way at one size: seconds to the first batch, and sentences a second after the warm-up."""
    import datasets
    from transformers import AutoTokenizer

    from sentrep.data import SentRepDataModule
    from sentrep.encoder.text.tokenizer import TextTokenizer

    tokenize = TextTokenizer(AutoTokenizer.from_pretrained(job.folder), limit=512)
    cache = f"{job.corpus}.{job.setting['batch']}-{job.setting['workers']}-{job.repeat if job.variant == BUILT else 0}"
    datasets.config.HF_DATASETS_CACHE = cache
    batch_size, workers = job.setting["batch"], job.setting["workers"]
    data = SentRepDataModule(
        job.corpus, batch_size=batch_size, seed=0, streaming=job.variant == STREAMED, num_workers=workers
    )
    data.connect(SimpleNamespace(tokenize=tokenize, max_length=job.settings["max_length"]))
    before, start = machine.used_mib(job.device), machine.now(job.device)
    data.setup("fit")
    batches = iter(data.train_dataloader())
    next(batches)
    first = machine.now(job.device) - start
    for batch in islice(batches, job.settings["warmup"]):
        batch.anchor.input_ids.to(job.device)
    count, start = 0, machine.now(job.device)
    for batch in islice(batches, job.settings["batches"]):
        for tensor in (batch.anchor.input_ids, batch.anchor.attention_mask, batch.rows):
            tensor.to(job.device, non_blocking=True)
        count += len(batch)
    seconds = machine.now(job.device) - start
    if not count:
        raise SystemExit("the text has no more batches than the warm-up takes; raise --lines")
    return {
        "sentences_per_second": count / seconds, "before_memory_mib": before, "more": {"to first batch, s": first}
    }  # fmt: skip


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure what the options ask for: ``rows`` of the table, and ``measurements``."""
    found: dict[str, Any] = {"measurements": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = next(iter(harness.folders(options, Path(temporary)).values()))
        for lines in options.lines:
            corpus = inputs.write_sentences(options.corpus, lines, Path(temporary) / f"{lines}.txt")
            for batch, workers in product(options.batch_size, options.workers):
                setting = {"lines": lines, "batch": batch, "workers": workers}
                jobs = [Job(way, setting, folder, corpus, options.device, 0, options.settings) for way in WAYS]
                found["measurements"] += harness.run_jobs(
                    jobs, measure, repeats=options.repeats, threads=options.apart, until=until
                )
    found["rows"] = harness.rows_of(found["measurements"], [])
    return found


def report(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    return harness.throughput_table(found["rows"])


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("Speed of the training data.", batch_sizes=(64, 512), batches=200, warmup=5, max_length=32)
    found.add_argument("--lines", type=int, nargs="+", default=[100_000, 1_000_000])
    found.add_argument("--workers", type=int, nargs="+", default=[0, 2], help="processes that prepare batches")
    return found


if __name__ == "__main__" and not harness.worker(measure):
    harness.main(parser(), run, report)
