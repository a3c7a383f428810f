"""The seven STS sets: sentrep's evaluation beside a plain loop over sentence-transformers.

    python benchmarks/sts_throughput.py --senteval SENTEVAL --model-folder MINILM BERT_MINI [--pairs 200]

`sentrep.evaluation.evaluate_sts` encodes every distinct sentence of all sets once. The other side does what evaluation
scripts do: set by set and sub-set by sub-set it encodes the first sentences and the second sentences with
`SentenceTransformer.encode`, and takes scipy's Spearman of the cosines, all sub-sets of a set pooled. Mean pooling, the
model's own length limit. In float32 the scores must agree to 0.01 (of 100), else the benchmark stops. Reading files and
loading the model do not count. ``--pairs`` takes the first pairs of every set only. Without ``--senteval`` as many
pairs as the sets have are made up; no sentence occurs twice, so what sentrep saves on those that do does not show.
"""

from __future__ import annotations

import argparse
import tempfile
import time
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
NEEDS = {PEER: ("sentence_transformers", "scipy")}
SIZES = {"sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379, "sickr": 4927}


def load_sets(folder: str | None, pairs: int) -> list[Any]:
    """The seven sets, or made-up ones; only so many pairs of each unless that is 0."""
    if folder is None:
        return [_made_up(name, min(count, pairs or count)) for name, count in SIZES.items()]
    from sentrep.data import load_sts

    sets = [load_sts(name, folder) for name in SIZES]
    if not pairs:
        return sets
    return [
        replace(
            one, first=one.first[:pairs], second=one.second[:pairs], scores=one.scores[:pairs],
            subsets=one.subsets and one.subsets[:pairs],
        )
        for one in sets
    ]  # fmt: skip


def _made_up(name: str, count: int) -> Any:
    from sentrep.data.sets.scored_pairs import ScoredPairs

    sentences = inputs.made_up_sentences(2 * count, seed=count)
    return ScoredPairs(name, sentences[:count], sentences[count:], [float(row % 50) for row in range(count)])


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
    return max(abs(one[name] - scores[OURS][name]) for one in scores.values() for name in one)


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure what the options ask for; no setting begins behind ``until``.

    Returns:
        ``rows`` of the table, ``measurements``, ``gaps`` of the scores by setting, ``left_out`` settings.
    """
    found: dict[str, Any] = {"rows": [], "measurements": [], "gaps": {}, "left_out": []}
    settings = {**options.settings, "senteval": options.senteval}
    threads = None if options.one_process or options.device != "cpu" else options.threads
    variants = harness.present([PEER, OURS], NEEDS)
    with tempfile.TemporaryDirectory() as temporary:
        for model, folder in harness.folders(options, Path(temporary)).items():
            for precision in options.precision:
                for batch in options.batch_size:
                    setting = {"model": model, "precision": precision, "batch": batch}
                    if time.monotonic() > until:
                        found["left_out"].append(setting)
                        continue
                    jobs = [Job(name, setting, folder, "", options.device, 0, settings) for name in variants]
                    measurements = harness.run_jobs(
                        jobs, measure, repeats=options.repeats, threads=threads, until=until
                    )
                    gap = largest_gap(measurements)
                    if precision == "fp32" and gap > TOLERANCE:
                        raise SystemExit(f"{setting}: the scores differ by {gap:.3f}: {measurements}")
                    found["gaps"][f"{model} {precision} {batch}"] = gap
                    found["measurements"] += measurements
    found["rows"] = harness.rows_of(found["measurements"], [PEER])
    return found


def report(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    gaps = ", ".join(f"{setting}: {gap:.1e}" for setting, gap in found["gaps"].items())
    text = tables.throughput_table(found["rows"]) + f"\nLargest difference of a score (of 100): {gaps}.\n"
    return text + (f"\nLeft out for time: {found['left_out']}\n" if found["left_out"] else "")


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("Speed of the STS evaluation.", batch_sizes=(64,), pairs=0)
    found.add_argument("--senteval", help="folder of the SentEval data, with STS and SICK")
    found.add_argument("--one-process", action="store_true", help="measure in this process on a CPU too")
    return found


def main() -> None:
    """Measure and report."""
    options = harness.parse(parser(), corpus_needed=False)
    about = machine.environment(options.device, options.threads)
    found = run(options)
    text = report(found) + "\n" + tables.in_words(about)
    tables.write(text, {"environment": about, **found}, options.markdown, options.json)


if __name__ == "__main__" and not harness.worker(measure):
    main()
