"""Training speed, memory and FLOP utilisation of sentrep beside sentence-transformers and a plain loop.

    python benchmarks/train_throughput.py --shape bert-mini 6x384 [--objective simcse gs dclr denosent] [--device cuda]
    python benchmarks/train_throughput.py --model-folder BERT_MINI MINILM --corpus wiki1m.txt.xz
    python benchmarks/train_throughput.py --shape 6x384 --lengths 16 32 64 128 256 --batch-size 32

On SimCSE all train the same weights (CLS pooling, no head, dropout as in the model) on the same batches in the same
order, with the same loss (InfoNCE of cosine, τ = 0.05), AdamW at 3e-5 falling linearly, no clipping:

- "sentrep": `SentRepModule` under Lightning's Trainer, every option at its default.
- "sentrep, compiled", "sentrep, CUDA graphs": with ``compile: true`` and ``compile: reduce-overhead`` of
  ``model.encoder.compute``; on a GPU, and where ``--variants`` asks for them.
- "sentrep, 32 rows at once", where ``--variants`` asks for it: GradCache.
- "sentrep, NAME alone", where ``--variants`` asks: one of the fast paths ``layout`` and ``cheap_dropout`` by itself.
- "sentrep, fast paths off": one padded pass with torch's own dropout.
- "sentence-transformers": its own trainer and `MultipleNegativesRankingLoss` over two equal columns.
- "plain HF loop": a page of PyTorch around the transformers model, as SimCSE's repository does it.
- "best loop by hand" and "best loop by hand, compiled", where ``--variants`` asks for them: what can be written for
  BERT alone, on packed rows (hand_loop.py).

Before training, with dropout off, all compute the loss of the first batch in float32, and the benchmark stops when two
differ. Loading and collating count, the first steps do not. The other objectives are sentrep's alone. With
``--lengths``, made-up sentences fill their length: with nothing to leave out, sentrep has the least advantage.

MFU, the model FLOP utilisation, is the arithmetic that a step needs per second ÷ the FLOP/s of a large matrix product
in the same precision, measured in the same run. `forward` and `training` count the products of the transformer's layers
on real tokens alone, in full for every variant. Padding, dropout, norms, softmax, embeddings, the loss and the
optimiser do not count.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import harness
import inputs
import machine
from harness import COMPILED, GRAPHS, HAND, HAND_COMPILED, OURS, PEER, PLAIN, SLOW, Job, Row
from training_loops import COMPUTE, measure

OBJECTIVES = ("simcse", "gs", "dclr", "denosent")
TOLERANCE = 1e-4
NEEDS = {PEER: ("sentence_transformers", "datasets", "accelerate")}
PEAK = "matrix product"
DECODER_LAYERS, DECODER_WIDTH = 16, 2048
"""Of `sentrep.objectives.Denoising` as the recipes have it."""


def forward(lengths: Sequence[int], layers: int, hidden: int, intermediate: int) -> float:
    """FLOPs of one pass over sentences of these lengths, special tokens included; a multiply-add is two.

    A sentence of n tokens takes layers · (2n (4H² + 2HF) + 4n²H): projections and MLP; attention scores and their use.

    Example:
        >>> forward([2], layers=1, hidden=3, intermediate=5)  # 4·(36 + 30) + 16·3
        312
    """
    tokens, squares = sum(lengths), sum(n * n for n in lengths)
    return layers * (2 * tokens * (4 * hidden**2 + 2 * hidden * intermediate) + 4 * squares * hidden)


def training(lengths: Sequence[int], config: Any, objective: str) -> float:
    """FLOPs of a training step over these sentences: two views, and two products backward for each one forward.

    DCLR adds one pass of its frozen encoder; DenoSent its decoder, and a masked-LM head over V words: 2n (H² + HV).

    Args:
        lengths: of the sentences, special tokens included.
        config: of a transformers model with BERT's names.
        objective: one of `OBJECTIVES`.
    """
    one_pass = forward(lengths, config.num_hidden_layers, config.hidden_size, config.intermediate_size)
    total = 3 * 2 * one_pass
    if objective == "dclr":
        total += one_pass
    if objective == "denosent":
        head = 2 * sum(lengths) * (config.hidden_size**2 + config.hidden_size * config.vocab_size)
        total += 3 * (forward(lengths, DECODER_LAYERS, config.hidden_size, DECODER_WIDTH) + head)
    return total


def run(options: argparse.Namespace, until: float = float("inf")) -> dict[str, Any]:
    """Measure what the options ask for; no setting begins behind ``until``.

    Returns:
        ``rows`` of the table, ``measurements``, ``peaks`` in FLOP/s by precision, ``left_out`` settings.
    """
    found: dict[str, Any] = {"rows": [], "measurements": [], "peaks": {}, "left_out": []}
    per_sentence: dict[tuple[Any, ...], float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        models = harness.folders(options, Path(temporary))
        for setting in _settings(options, models):
            if time.monotonic() > until:
                found["left_out"].append(setting)
                continue
            jobs = _jobs(options, setting, models[setting["model"]], Path(temporary))
            per_sentence[tuple(setting.values())] = _flops(jobs[0])
            peak_job = replace(jobs[0], variant=PEAK)
            product = harness.run_jobs([peak_job], measure_any, repeats=1, threads=options.apart)[0]["flops_per_second"]
            found["peaks"][setting["precision"]] = max(product, found["peaks"].get(setting["precision"], 0.0))
            measurements = harness.run_jobs(
                jobs, measure_any, repeats=options.repeats, threads=options.apart, until=until
            )
            check_losses(measurements)
            found["measurements"] += measurements
    for row in harness.rows_of(found["measurements"], [PEER, PLAIN, HAND, HAND_COMPILED]):
        found["rows"].append(_with_utilisation(row, per_sentence[tuple(row.setting.values())], found["peaks"]))
    return found


def _settings(options: argparse.Namespace, models: dict[str, str]) -> list[dict[str, Any]]:
    lengths = options.lengths or [None]
    wanted = itertools.product(options.objective, models, options.precision, lengths, options.batch_size)
    return [
        {"model": model, "objective": objective, "precision": precision, "batch": batch}
        | ({"length": length} if length else {})
        for objective, model, precision, length, batch in wanted
    ]


def _jobs(options: argparse.Namespace, setting: dict[str, Any], folder: str, temporary: Path) -> list[Job]:
    """A job for each variant; only sentrep's own where nobody else has the objective."""
    count = (options.warmup + options.steps) * setting["batch"]
    length = setting.get("length")
    corpus = temporary / f"{count}-{length}.txt"
    if not corpus.exists():
        inputs.write_sentences(options.corpus, count, corpus, length)
    gpu_only = [COMPILED, GRAPHS] if options.device == "cuda" else []
    wanted = options.variants or [PEER, PLAIN, SLOW, OURS, *gpu_only]
    own = [variant for variant in wanted if variant in COMPUTE]
    variants = harness.present(wanted, NEEDS) if setting["objective"] == "simcse" else own
    settings = options.settings | ({"max_length": length} if length else {})
    return [Job(variant, setting, folder, str(corpus), options.device, 0, settings) for variant in variants]


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


def _flops(job: Job) -> float:
    """FLOPs of a training step for one sentence of a job, on average."""
    from transformers import AutoConfig

    lengths = inputs.token_lengths(job.folder, job.corpus, job.settings["max_length"])
    return training(lengths, AutoConfig.from_pretrained(job.folder), job.setting["objective"]) / len(lengths)


def _with_utilisation(row: Row, per_sentence: float, peaks: dict[str, float]) -> Row:
    rate = median(row.sentences_per_second) * per_sentence
    used = {"model GFLOP/s": rate / 1e9, "MFU, %": 100 * rate / peaks[row.setting["precision"]]}
    return replace(row, more={**row.more, **used})


def report(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    text = harness.throughput_table(found["rows"])
    for precision, peak in found["peaks"].items():
        text += f"\nMatrix product in {precision}, the 100 % of MFU: {peak / 1e9:,.1f} GFLOP/s.\n"
    if found["left_out"]:
        text += f"\nLeft out for time: {len(found['left_out'])} settings, {found['left_out']}\n"
    return text


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = harness.parser("Training speed beside others.", steps=20, warmup=3, max_length=32, matrix=0)
    found.add_argument("--objective", nargs="+", choices=OBJECTIVES, default=["simcse"])
    found.add_argument("--variants", nargs="+", choices=[PEER, PLAIN, HAND, HAND_COMPILED, *COMPUTE])
    found.add_argument("--lengths", nargs="+", type=int, help="made-up sentences of exactly so many tokens")
    return found


if __name__ == "__main__" and not harness.worker(measure_any):
    harness.main(parser(), run, report)
