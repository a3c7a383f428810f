"""What a method adds to a training step of SimCSE, in time and memory; and what six objectives cost in one step.

    python benchmarks/objective_costs.py --model-folder BERT_MINI --corpus heldout.txt --batch-size 64 256

Negatives and weightings stand in the contrastive loss; every other objective is a second term beside it. All train the
same encoder on the same batches under Lightning's Trainer in fp32, in turns, one thread, each in a process forked from
this one. Times are processor times. *six* is one step with the terms of `training_loops.SIX`; its ratio is the step ÷
the sum of six steps with one of the terms each.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import harness
import inputs
import machine
import tables
import torch
from harness import OURS, PROCESSOR, Job
from training_loops import SIX, measure_ours

BASE, TOGETHER = "simcse", "six"
WITHIN = ("gs", "dclr", "memory bank", "mixture", "vae")
BESIDE = (
    "alignment", "uniformity", "binary", "ranking", "triplet", "layers", "distillation", "momentum", "tension", "mlm",
    "replaced tokens", "phrases", "information", "denoising", "denoising, 16 layers",
)  # fmt: skip


def run(options: argparse.Namespace) -> dict[str, Any]:
    """By model and batch, what `_turns` measures."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, folder in harness.folders(options, Path(temporary)).items():
            for batch in options.batch_size:
                setting = {"model": name, "precision": "fp32", "batch": batch}
                count = (options.warmup + options.steps) * batch
                corpus = inputs.write_sentences(options.corpus, count, Path(temporary, f"{batch}.txt"))
                job = Job("", setting, folder, corpus, "cpu", 0, options.settings)
                found[f"{name}, batch {batch}"] = _turns(job, options.repeats)
    return found


def report(found: dict[str, Any]) -> str:
    """A table for each model and batch."""
    return "\n".join(f"{title}\n\n{_table(measured)}" for title, measured in found.items())


def _turns(job: Job, repeats: int) -> list[dict[str, tuple[float, float]]]:
    """For each turn, by variant: processor ms of a sentence, and the peak in MiB."""
    alone = [f"{name} alone" for name in SIX if name != BASE]
    variants = [BASE, *WITHIN, *(f"{BASE}+{name}" for name in BESIDE), *alone, TOGETHER]
    turns: list[dict[str, tuple[float, float]]] = []
    for repeat in range(repeats):
        first = repeat % len(variants)
        turn = {}
        for variant in [*variants[first:], *variants[:first]]:
            with multiprocessing.get_context("fork").Pool(1) as pool:
                turn[variant] = pool.apply(_measure, (replace(job, variant=variant, repeat=repeat),))
            print(job.setting["batch"], repeat, variant, turn[variant], flush=True)
        turns.append(turn)
    return turns


def _measure(job: Job) -> tuple[float, float]:
    terms = job.variant.removesuffix(" alone")
    machine.forget_peak("cpu")
    with inputs.quiet():
        found = measure_ours(replace(job, variant=OURS, setting={**job.setting, "objective": terms}))
    return found["more"][PROCESSOR], machine.peak_mib("cpu")


def _table(turns: list[dict[str, tuple[float, float]]]) -> str:
    rows = []
    for name in (*WITHIN, *BESIDE):
        variant = name if name in WITHIN else f"{BASE}+{name}"
        rows.append([name, *_ratio([turn[variant][0] / turn[BASE][0] for turn in turns])])
        rows[-1].append(f"{median(turn[variant][1] - turn[BASE][1] for turn in turns):+,.0f}")
    single = [BASE, *(f"{name} alone" for name in SIX if name != BASE)]
    rows.append(
        ["six ÷ their six steps", *_ratio([turn[TOGETHER][0] / sum(turn[n][0] for n in single) for turn in turns])]
    )
    rows[-1].append(f"{median(turn[TOGETHER][1] - turn[BASE][1] for turn in turns):+,.0f}")
    return tables.table(["with", "× SimCSE's step", "range", "peak, MiB more"], rows)


def _ratio(values: list[float]) -> list[str]:
    return [f"{median(values):.2f}", f"{min(values):.2f}–{max(values):.2f}"]


if __name__ == "__main__":
    parser = harness.parser("What a method adds to a step.", (64, 256), steps=2, warmup=1, max_length=32)
    harness.main(parser, run, report)
