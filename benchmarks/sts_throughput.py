"""The seven STS sets: sentrep's evaluation beside a plain loop over sentence-transformers.

    python benchmarks/sts_throughput.py --senteval SENTEVAL --model-folder MINILM BERT_MINI [--pairs 200]

`sentrep.evaluation.evaluate_sts` encodes every distinct sentence of all sets once. The other side does what evaluation
scripts do: set by set and sub-set by sub-set it encodes the first sentences and the second sentences with
`SentenceTransformer.encode`, and takes scipy's Spearman of the cosines, all sub-sets of a set pooled. Mean pooling, the
model's own length limit. In float32 the scores must agree to 0.01 (of 100), else the benchmark stops. Reading files and
loading the model do not count. ``--pairs`` takes the first pairs of every set only.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
import inputs
import machine
import tables
from harness import OURS, PEER, Job

TOLERANCE = 0.01


def load_sets(folder: str, pairs: int) -> list[Any]:
    """The seven sets; only so many pairs of each unless that is 0."""
    from sentrep.data import load_sts
    from sentrep.evaluation.sts import SENTEVAL_SETS

    sets = [load_sts(name, folder) for name in SENTEVAL_SETS]
    if not pairs:
        return sets
    return [
        replace(
            one, first=one.first[:pairs], second=one.second[:pairs], scores=one.scores[:pairs],
            subsets=one.subsets and one.subsets[:pairs],
        )
        for one in sets
    ]  # fmt: skip


def measure(job: Job) -> dict[str, Any]:
    """Scores by set, and sentences (two a pair) a second."""
    sets = load_sets(job.settings["senteval"], job.settings["pairs"])
    size, ours = job.setting["batch"], job.variant == OURS
    if ours:
        from sentrep import SentenceEncoder
        from sentrep.evaluation import evaluate_sts

        encoder: Any = SentenceEncoder(job.folder, pooling="mean").eval().to(job.device)
    else:
        encoder = inputs.load_peer(job.folder, "mean", device=job.device)
    inputs.check_weights(encoder)
    with machine.autocast(job.device, job.setting["precision"]):
        encoder.encode(sets[0].first[: 2 * size], batch_size=size, show_progress_bar=False)
        before = machine.used_mib(job.device)
        start = machine.now(job.device)
        if ours:
            results = evaluate_sts(encoder, sets, batch_size=size, show_progress_bar=False)
            scores = {result.name: result.spearman for result in results}
        else:
            scores = {one.name: _plain_score(encoder, one, size) for one in sets}
        seconds = machine.now(job.device) - start
    sentences = 2 * sum(len(one) for one in sets)
    return {"sentences_per_second": sentences / seconds, "before_memory_mib": before, "scores": scores}


def _plain_score(model: Any, pairs: Any, size: int) -> float:
    """Spearman × 100 of one set, both columns of each of its sub-sets encoded."""
    import numpy as np
    import scipy.stats

    names = np.array(pairs.subsets or [""] * len(pairs))
    cosines, gold = [], []
    for name in dict.fromkeys(names.tolist()):
        rows = np.flatnonzero(names == name)
        first, second = (
            model.encode([column[row] for row in rows], batch_size=size, show_progress_bar=False)
            for column in (pairs.first, pairs.second)
        )
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        cosines.append((first * second).sum(1) / norms)
        gold.append(np.array(pairs.scores)[rows])
    return 100 * float(scipy.stats.spearmanr(np.concatenate(cosines), np.concatenate(gold)).statistic)


def largest_gap(measurements: Sequence[dict[str, Any]]) -> float:
    """Between the two sides' scores of one setting, over all sets."""
    scores = {item["variant"]: item["scores"] for item in measurements}
    return max(abs(scores[OURS][name] - scores[PEER][name]) for name in scores[OURS])


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure what the options ask for: ``rows`` of the table, ``measurements``, ``gaps`` of the scores by setting."""
    found: dict[str, Any] = {"rows": [], "measurements": [], "gaps": {}}
    settings = {**options.settings, "senteval": options.senteval}
    threads = None if options.one_process else options.threads
    with tempfile.TemporaryDirectory() as temporary:
        for model, folder in harness.folders(options, Path(temporary)).items():
            for precision in options.precision:
                for batch in options.batch_size:
                    setting = {"model": model, "precision": precision, "batch": batch}
                    jobs = [Job(name, setting, folder, "", options.device, 0, settings) for name in (PEER, OURS)]
                    measurements = harness.run_jobs(jobs, measure, repeats=options.repeats, threads=threads)
                    gap = largest_gap(measurements)
                    if precision == "fp32" and gap > TOLERANCE:
                        raise SystemExit(f"{setting}: the scores differ by {gap:.3f}: {measurements}")
                    found["gaps"][f"{model} {precision} {batch}"] = gap
                    found["measurements"] += measurements
    found["rows"] = harness.rows_of(found["measurements"], [PEER])
    return found


def main() -> None:
    """Measure and report."""
    parser = harness.parser("Speed of the STS evaluation.", batch_sizes=(64,), pairs=0)
    parser.add_argument("--senteval", required=True, help="folder of the SentEval data, with STS and SICK")
    parser.add_argument("--one-process", action="store_true", help="measure in this process on a CPU too")
    options = harness.parse(parser, corpus_needed=False)
    about = machine.environment(options.device, options.threads)
    found = run(options)
    gaps = ", ".join(f"{setting}: {gap:.1e}" for setting, gap in found["gaps"].items())
    text = tables.throughput_table(found["rows"]) + f"\nLargest difference of a score (of 100): {gaps}.\n\n"
    tables.write(text + tables.in_words(about), {"environment": about, **found}, options.markdown, options.json)


if __name__ == "__main__" and not harness.worker(measure):
    main()
