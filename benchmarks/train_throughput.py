"""Training speed, memory and FLOP utilisation of sentrep beside sentence-transformers and a plain loop.

    python benchmarks/train_throughput.py --shape bert-mini 6x384 [--objective simcse gs dclr denosent] [--device cuda]
    python benchmarks/train_throughput.py --model-folder BERT_MINI MINILM --corpus wiki1m.txt.xz

On SimCSE all train the same weights (CLS pooling, no head, dropout as in the model) on the same batches in the same
order, with the same loss (InfoNCE of cosine, τ = 0.05), AdamW at 3e-5 falling linearly, no clipping:

- "sentrep": `SentRepModule` under Lightning's Trainer, every option at its default.
- "sentrep, packed", "sentrep, compiled", "sentrep, CUDA graphs": with ``layout: packed``, ``compile: true`` and
  ``compile: reduce-overhead`` of ``model.encoder.compute``; on a GPU, and where ``--variants`` asks for them.
- "sentrep, NAME alone" and "sentrep, without NAME", where ``--variants`` asks: one of the fast paths ``layout``,
  ``cheap_dropout`` and ``short_last_layer`` by itself, and all but one ("sentrep, padded" is without the layout).
- "sentrep, fast paths off": one padded pass with torch's own dropout, and the whole last layer.
- "sentence-transformers": its own trainer and `MultipleNegativesRankingLoss` over two equal columns; where the
  libraries that its trainer needs (datasets, accelerate) are missing, its model and loss in a plain loop stand in.
- "plain HF loop": a page of PyTorch around the transformers model, as SimCSE's repository does it.
- "best loop by hand", where ``--variants`` asks for it: what can be written for BERT alone (hand_loop.py).

Before training, with dropout off, all compute the loss of the first batch in float32, and the benchmark stops when two
differ. Loading and collating count, the first steps do not. The other objectives are sentrep's alone. Utilisation is
explained in flops.py.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import flops
import harness
import inputs
import machine
import tables
from harness import COMPILED, GRAPHS, HAND, OURS, PACKED, PEER, PEER_LOOP, PLAIN, SLOW, Job, Row
from training_loops import COMPUTE, measure

OBJECTIVES = ("simcse", "gs", "dclr", "denosent")
TOLERANCE = 1e-4
NEEDS = {PEER: ("sentence_transformers", "datasets", "accelerate"), PEER_LOOP: ("sentence_transformers",)}
PEAK = "matrix product"


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure what the options ask for; no setting begins behind ``until``.

    Returns:
        ``rows`` of the table, ``measurements``, ``peaks`` in FLOP/s by precision, ``profiles``, ``left_out`` settings.
    """
    found: dict[str, Any] = {"rows": [], "measurements": [], "peaks": {}, "profiles": {}, "left_out": []}
    threads = options.threads if options.device == "cpu" and not options.one_process else None
    with tempfile.TemporaryDirectory() as temporary:
        models = harness.folders(options, Path(temporary))
        peaks: dict[str, list[float]] = {}
        corpora: set[str] = set()
        for setting in _settings(options, models):
            if time.monotonic() > until:
                found["left_out"].append(setting)
                continue
            jobs = _jobs(options, setting, models[setting["model"]], Path(temporary))
            corpora.update(job.corpus for job in jobs)
            peak_job = replace(jobs[0], variant=PEAK, settings={**options.settings})
            product = harness.run_jobs([peak_job], measure_any, repeats=1, threads=threads)[0]
            peaks.setdefault(setting["precision"], []).append(product["flops_per_second"])
            measurements = harness.run_jobs(jobs, measure_any, repeats=options.repeats, threads=threads, until=until)
            check_losses(measurements)
            found["measurements"] += measurements
            if options.profile:
                job = replace(jobs[-1], settings={**jobs[-1].settings, "profile": 1})
                profile = harness.run_jobs([job], measure_any, repeats=1, threads=threads)[0]["profile"]
                found["profiles"][f"{job.variant}, {', '.join(map(str, setting.values()))}"] = profile
        found["peaks"] = {precision: max(values) for precision, values in peaks.items()}
        rows = harness.rows_of(found["measurements"], [PEER, PEER_LOOP, PLAIN, HAND])
        found["rows"] = [_with_utilisation(row, models, min(corpora), options, found["peaks"]) for row in rows]
    return found


def _settings(options: argparse.Namespace, models: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"model": model, "objective": objective, "precision": precision, "batch": batch}
        for objective in options.objective
        for model in models
        for precision in options.precision
        for batch in options.batch_size
    ]


def _jobs(options: argparse.Namespace, setting: dict[str, Any], folder: str, temporary: Path) -> list[Job]:
    """A job for each variant; only sentrep's own where nobody else has the objective."""
    count = (options.warmup + options.steps) * setting["batch"]
    corpus = temporary / f"{count}.txt"
    if not corpus.exists():
        inputs.write_sentences(options.corpus, count, corpus)
    gpu_only = [PACKED, COMPILED, GRAPHS] if options.device == "cuda" else []
    wanted = options.variants or [PEER, PEER_LOOP, PLAIN, SLOW, OURS, *gpu_only]
    own = [variant for variant in wanted if variant in COMPUTE]
    variants = harness.present(wanted, NEEDS) if setting["objective"] == "simcse" else own
    if PEER in variants and PEER_LOOP in variants:
        variants.remove(PEER_LOOP)
    return [Job(variant, setting, folder, str(corpus), options.device, 0, options.settings) for variant in variants]


def measure_any(job: Job) -> dict[str, Any]:
    """One variant, or the matrix product that utilisation is measured by."""
    if job.variant != PEAK:
        return measure(job)
    size = job.settings["matrix"] or None
    return {
        "flops_per_second": machine.matmul_peak(job.device, job.setting["precision"], size),
        "sentences_per_second": 0.0,
    }


def check_losses(measurements: list[dict[str, Any]]) -> None:
    """Stop where two variants of a setting do not compute the same loss on the first batch."""
    losses = {item["variant"]: item["first_loss"] for item in measurements}
    if max(losses.values()) - min(losses.values()) > TOLERANCE:
        raise SystemExit(f"{measurements[0]['setting']}: the variants differ in the loss of the first batch: {losses}")


def _with_utilisation(
    row: Row, models: dict[str, str], corpus: str, options: argparse.Namespace, peaks: dict[str, float]
) -> Row:
    from transformers import AutoConfig

    folder = models[row.setting["model"]]
    lengths = inputs.token_lengths(folder, corpus, options.max_length)
    shape = flops.Shape.of(AutoConfig.from_pretrained(folder))
    per_sentence = flops.training(lengths, shape, row.setting["objective"]) / len(lengths)
    rate = median(row.sentences_per_second) * per_sentence
    used = {"model GFLOP/s": rate / 1e9, "MFU, %": 100 * rate / peaks[row.setting["precision"]]}
    return replace(row, more={**row.more, **used})


def report(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    text = tables.throughput_table(found["rows"])
    for precision, peak in found["peaks"].items():
        text += f"\nMatrix product in {precision}, the 100 % of MFU: {peak / 1e9:,.1f} GFLOP/s.\n"
    for title, operations in found["profiles"].items():
        lines = [[row["operation"][:80], f"{100 * row['share']:.1f}", str(row["calls"])] for row in operations]
        text += f"\nWhere the time goes: {title}\n\n" + tables.table(["operation", "% of time", "calls"], lines)
    if found["left_out"]:
        text += f"\nLeft out for time: {len(found['left_out'])} settings, {found['left_out']}\n"
    return text


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("Training speed beside others.", steps=20, warmup=3, max_length=32, matrix=0)
    found.add_argument("--objective", nargs="+", choices=OBJECTIVES, default=["simcse"])
    found.add_argument("--variants", nargs="+", choices=[PEER, PEER_LOOP, PLAIN, HAND, *COMPUTE])
    found.add_argument("--profile", action="store_true", help="also profile the last variant of every setting")
    found.add_argument("--one-process", action="store_true", help="measure in this process on a CPU too")
    return found


def main() -> None:
    """Measure and report."""
    options = harness.parse(parser())
    about = machine.environment(options.device, options.threads)
    found = run(options)
    text = report(found) + "\n" + tables.in_words(about)
    tables.write(text, {"environment": about, **found}, options.markdown, options.json)


if __name__ == "__main__" and not harness.worker(measure_any):
    main()
