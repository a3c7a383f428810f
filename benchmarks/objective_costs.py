"""What a method adds to a training step of SimCSE, in time and memory; and what six objectives cost in one step.

    python benchmarks/objective_costs.py --model-folder BERT_MINI --corpus heldout.txt --batch-size 64 256 --threads 1

Negatives and weightings stand in the contrastive loss; every other objective is a second term beside it. All train the
same encoder on the same batches under Lightning's Trainer, in turns. Times are processor times on a CPU and the clock's
on a GPU. *six* is one step with the terms of `training_loops.SIX`; its ratio is the step ÷ the sum of six steps with
one of the terms each.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import harness
import inputs
import tables
from harness import OURS, PROCESSOR, Job
from training_loops import SIX, measure_ours

BASE, TOGETHER = "simcse", "six"
WITHIN = ("gs", "dclr", "memory bank", "mixture", "vae")
BESIDE = (
    "alignment", "uniformity", "binary", "ranking", "triplet", "layers", "distillation", "momentum", "tension", "mlm",
    "replaced tokens", "phrases", "information", "denoising", "denoising, 16 layers",
)  # fmt: skip
ONE_EACH = [*WITHIN, *(f"{BASE}+{name}" for name in BESIDE)]
ALONE = [name for name in SIX if name != BASE]


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure; no turn but the first begins behind ``until``.

    Returns:
        ``measurements``, whose variants are names of objectives.
    """
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        models = harness.folders(options, Path(temporary))
        for model, precision, batch in itertools.product(models, options.precision, options.batch_size):
            setting = {"model": model, "precision": precision, "batch": batch}
            count = (options.warmup + options.steps) * batch
            corpus = inputs.write_sentences(options.corpus, count, Path(temporary, f"{batch}.txt"))
            names = [BASE, *ONE_EACH, *([] if options.without_six else [*ALONE, TOGETHER])]
            jobs = [Job(name, setting, models[model], corpus, options.device, 0, options.settings) for name in names]
            found += harness.run_jobs(jobs, measure_any, repeats=options.repeats, threads=options.apart, until=until)
    return {"measurements": found}


def measure_any(job: Job) -> dict[str, Any]:
    """The step with one objective."""
    return measure_ours(replace(job, variant=OURS, setting={**job.setting, "objective": job.variant}))


def report(found: dict[str, Any]) -> str:
    """A table for each setting."""
    settings: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for item in found["measurements"]:
        title = ", ".join(f"{name} {value}" for name, value in item["setting"].items())
        settings.setdefault(title, {}).setdefault(item["variant"], []).append(item)
    return "\n".join(f"{title}\n\n{_table(variants)}" for title, variants in settings.items())


def _table(found: dict[str, list[dict[str, Any]]]) -> str:
    """The rows of one setting; ``found`` has the turns of each variant."""
    times = {name: [_time(item) for item in turns] for name, turns in found.items()}
    peaks = {name: [item["peak_memory_mib"] for item in turns] for name, turns in found.items()}
    compared = {name: times[BASE] for name in ONE_EACH if name in found}
    if TOGETHER in found:
        compared[TOGETHER] = [sum(turn) for turn in zip(*(times[name] for name in (BASE, *ALONE)), strict=True)]
    rows = []
    for name, base in compared.items():
        ratios = [time / other for time, other in zip(times[name], base, strict=False)]
        more = median(a - b for a, b in zip(peaks[name], peaks[BASE], strict=False))
        title = "six ÷ their six steps" if name == TOGETHER else name.removeprefix(f"{BASE}+")
        rows.append([title, f"{median(ratios):.2f}", f"{min(ratios):.2f}–{max(ratios):.2f}", f"{more:+,.0f}"])
    return tables.table(["with", "× SimCSE's step", "range", "peak, MiB more"], rows)


def _time(item: dict[str, Any]) -> float:
    """Of a sentence."""
    processor: float = item["more"][PROCESSOR]
    return processor if item["device"] == "cpu" else 1 / item["sentences_per_second"]


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("What a method adds to a step.", (64, 256), steps=2, warmup=1, max_length=32)
    found.add_argument("--without-six", action="store_true", help="leave the six objectives of one step out")
    found.set_defaults(precision=["fp32"])
    return found


if __name__ == "__main__" and not harness.worker(measure_any):
    harness.main(parser(), run, report)
