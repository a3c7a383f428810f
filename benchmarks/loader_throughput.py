"""How fast the data pipeline delivers training batches, beside how fast they are used.

    python benchmarks/loader_throughput.py [--lines 1000000] [--batch-size 64 512] [--training train.json]

Made-up sentences, or those of ``--corpus``, are tokenised into a cache; then batches are taken from the training loader
and thrown away, with each number of workers in turn. With ``--device cuda`` every batch goes through page-locked memory
onto the GPU. ``--training`` names the JSON file of train_throughput.py on the same machine: the last column is the
loader's rate ÷ the fastest training rate in it (5 or more means that training never waits for data).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import harness
import inputs
import machine
import tables
from harness import Job

NAME = "training loader"


def measure(job: Job) -> dict[str, Any]:
    """Sentences a second, and how long opening the cache took (the first time: building it)."""
    from transformers import AutoTokenizer

    from sentrep.data import Collate, GlobalBatchSampler, ResumableLoader, TokenizedRows, open_corpus, tokenize_corpus
    from sentrep.encoder.text.tokenizer import TextTokenizer

    tokenize = TextTokenizer(AutoTokenizer.from_pretrained(job.folder), limit=512)
    start = time.perf_counter()
    rows = TokenizedRows(tokenize, job.settings["max_length"])
    tokens = tokenize_corpus(open_corpus(job.corpus), rows, f"{job.corpus}.cache")
    opened = time.perf_counter() - start
    loader = ResumableLoader(
        tokens,
        GlobalBatchSampler(len(tokens), job.setting["batch"], seed=0),
        Collate(tokenize.pad_token_id),
        num_workers=job.setting["workers"],
        pin_memory=job.device == "cuda",
    )
    before = machine.used_mib(job.device)
    batches = iter(loader)
    for batch in islice(batches, job.settings["warmup"]):
        batch.anchor.input_ids.to(job.device)
    count = 0
    start = machine.now(job.device)
    for batch in islice(batches, job.settings["batches"]):
        for tensor in (batch.anchor.input_ids, batch.anchor.attention_mask, batch.rows):
            tensor.to(job.device, non_blocking=True)
        count += len(batch)
    seconds = machine.now(job.device) - start
    if not count:
        raise SystemExit(f"{len(tokens)} sentences are no more than the warm-up takes; raise --lines")
    return {"sentences_per_second": count / seconds, "before_memory_mib": before, "opening_seconds": opened}


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure what the options ask for: ``rows`` of the table, ``measurements``, seconds of ``building`` the cache."""
    threads = options.threads if options.device == "cpu" and not options.one_process else None
    found: dict[str, Any] = {"measurements": [], "lines": options.lines}
    with tempfile.TemporaryDirectory() as temporary:
        folder = next(iter(harness.folders(options, Path(temporary)).values()))
        corpus = inputs.write_sentences(options.corpus, options.lines, Path(temporary) / "sentences.txt")
        for batch in options.batch_size:
            for workers in options.workers:
                setting = {"batch": batch, "workers": workers}
                job = Job(NAME, setting, folder, corpus, options.device, 0, options.settings)
                found["measurements"] += harness.run_jobs(
                    [job], measure, repeats=options.repeats, threads=threads, until=until
                )
    opening = [item["opening_seconds"] for item in found["measurements"]]
    found["building"], found["opening"] = opening[0], median(opening[1:] or opening)
    found["rows"] = harness.rows_of(found["measurements"], [])
    return found


def report(found: dict[str, Any], training_rate: float | None) -> str:
    """The results in Markdown, beside the fastest training rate where it is known."""
    for row in found["rows"]:
        if training_rate:
            row.more["× fastest training"] = median(row.sentences_per_second) / training_rate
    text = tables.throughput_table(found["rows"])
    return text + (
        f"\nThe cache of {found['lines']:,} sentences was tokenised and opened in {found['building']:.1f} s, and "
        f"opened again in {found['opening']:.2f} s.\n"
    )


def fastest(training: dict[str, Any]) -> float:
    """The highest median rate in the results of train_throughput.py."""
    return max(median(row.sentences_per_second) for row in harness.rows_of(training["measurements"], []))


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser(
        "Speed of the training loader.", batch_sizes=(64, 512), lines=1_000_000, batches=500, warmup=5, max_length=32
    )
    found.add_argument("--workers", type=int, nargs="+", default=[0, 2], help="processes that prepare batches")
    found.add_argument("--training", type=Path, help="JSON file of train_throughput.py")
    found.add_argument("--one-process", action="store_true", help="measure in this process on a CPU too")
    return found


def main() -> None:
    """Measure and report."""
    options = harness.parse(parser())
    about = machine.environment(options.device, options.threads)
    rate = fastest(json.loads(options.training.read_text(encoding="utf-8"))) if options.training else None
    found = run(options)
    text = report(found, rate) + "\n" + tables.in_words(about)
    tables.write(text, {"environment": about, **found}, options.markdown, options.json)


if __name__ == "__main__" and not harness.worker(measure):
    main()
