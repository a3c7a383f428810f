"""``sentrep evaluate``: the semantic textual similarity sets."""

from __future__ import annotations

import time

from sentrep.cli.encode import Precision, in_precision, load_encoder, whitening_corpus
from sentrep.cli.functions import run_function
from sentrep.data.sts import load_sts
from sentrep.encoder import fit_whitening
from sentrep.evaluation import DEFAULT_SUITE, Evaluation, evaluate_sts, print_results, write_report


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(evaluate, command, words)
    return 0


def evaluate(
    model: str,
    *,
    sts_folder: str | None = None,
    sets: list[str] = list(DEFAULT_SUITE),  # noqa: B006 (shown as the default in the help)
    pooling: str | None = None,
    whiten: str | None = None,
    whiten_dim: int | None = None,
    batch_size: int = 64,
    detail: bool = False,
    output: str | None = None,
    device: str | None = None,
    precision: Precision = "fp32",
) -> None:
    """Print Spearman × 100 of the cosine on similarity sets, with the number of pairs and the protocol of each.

    Args:
        model: a checkpoint, a model folder or a hub id.
        sts_folder: folder with STS and SICK in SentEval's layout; without it the sets come from the hub.
        sets: names such as [sts12,stsb-dev,sickr-all], or csv files of two sentences and a score.
        pooling: replaces the model's own.
        whiten: file of sentences to fit a whitening on (BERT-whitening) before the evaluation.
        whiten_dim: how many dimensions the whitening keeps; by default all that vary.
        batch_size: sentences of average length in one forward pass.
        detail: print the sub-sets and Pearson's correlation as well.
        output: also write the results to this file: .json (everything), .md or .csv.
        device: cpu, cuda, cuda:1, ...; by default a GPU where there is one.
        precision: fp32, or bf16 to compute in bfloat16 where that is safe; the similarities are float32 in either.
    """
    pairs = [load_sts(name, sts_folder) for name in sets]
    corpus = whitening_corpus(whiten, whiten_dim)
    encoder = load_encoder(model, pooling, device)
    with in_precision(precision, encoder):
        if corpus is not None:
            fit_whitening(encoder, corpus, whiten_dim, batch_size)
        start = time.perf_counter()
        results = evaluate_sts(encoder, pairs, batch_size=batch_size, show_progress_bar=True)
        seconds = time.perf_counter() - start
    print_results(results, detail=detail)
    if output is not None:
        write_report(Evaluation.of(encoder, model, results, seconds, precision), output)
