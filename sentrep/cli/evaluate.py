"""``sentrep evaluate``: the task suites."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sentrep.cli.errors import UsageError
from sentrep.errors import InputError
from sentrep.io.paths import check_target, expanded

if TYPE_CHECKING:
    from sentrep.evaluation.suites import SuiteName

_ENDINGS = (".json", ".md", ".csv")


def evaluate(
    model: str,
    *,
    suite: Literal["sts", "transfer"] = "sts",
    sets: list[str] | None = None,
    mteb: list[str] | None = None,
    sts_folder: str | None = None,
    columns: list[str] | None = None,
    batch_size: int = 64,
    pooling: str | None = None,
    device: str | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    whiten: str | None = None,
    whiten_dim: int | None = None,
    detail: bool = False,
    output: str | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> None:
    """Score a model on a suite of tasks with frozen vectors; print a table and write it to a file.

    For example: sentrep evaluate best.ckpt --sts_folder SentEval/data

    Args:
        model: a checkpoint, a model folder or a hub id.
        suite: sts (Spearman of the cosine) or transfer (logistic regression).
        sets: what to score. sts: names such as [sts12,stsb-dev,sickr-all] or csv files of two sentences and a score;
            all seven sets by default. transfer: [mr,cr,subj,mpqa,sst2,trec,mrpc], the default.
        mteb: score tasks of mteb instead, such as [Banking77Classification,SciFact], with the model's prompts.
        sts_folder: folder of the SentEval data, for the named sets of sts and transfer; without it the sets of sts are
            downloaded from the Hub.
        columns: names or positions of the columns of csv files: [sentence1,sentence2,score].
        batch_size: sentences of average length in one forward pass.
        pooling: replaces the model's own.
        device: cpu, cuda, cuda:1, ...; by default a GPU if the machine has one.
        precision: fp32, or bf16 for mixed precision in bfloat16; similarities are always float32.
        whiten: file of sentences to fit a whitening on (BERT-whitening) before the evaluation.
        whiten_dim: how many dimensions the whitening keeps; by default all that vary.
        detail: print sub-sets, Pearson's correlation and development scores as well.
        output: also write the results to this file: .json (everything), .md or .csv.
        overwrite: replace an output that is there already.
        trust_remote_code: run code that the model names: a module of yours behind the pooling, or a hub model's own.
    """
    from sentrep.cli.models import (
        check_precision,
        in_precision,
        load_encoder,
        protocol_notes,
        whitening_corpus,
    )
    from sentrep.encoder import fit_whitening
    from sentrep.evaluation import Evaluation, evaluate_suite, load_suite

    if output is not None:
        _check_output(output, [model, *([] if whiten is None else [whiten]), *(sets or ())], overwrite)
    if mteb is not None and (suite, sets) != ("sts", None):
        raise UsageError("evaluate: --mteb names the tasks; leave out --suite and --sets")
    tasks: SuiteName = suite if mteb is None else "mteb"
    loaded = load_suite(tasks, sets if mteb is None else mteb, sts_folder, columns)
    corpus = whitening_corpus(whiten, whiten_dim)
    encoder = load_encoder(model, pooling, device, trust_remote_code)
    check_precision(precision, encoder)
    with in_precision(precision, encoder):
        if corpus is not None:
            fit_whitening(encoder, corpus, whiten_dim, batch_size)
        start = time.perf_counter()
        results = evaluate_suite(tasks, encoder, loaded, batch_size=batch_size, show_progress_bar=True)
        seconds = time.perf_counter() - start
    notes = protocol_notes(encoder, loaded) if tasks == "sts" else []
    how = {"precision": precision, "suite": tasks, "notes": notes}
    evaluation = Evaluation.of(encoder, model, results, seconds, **how)
    evaluation.print(detail)
    if output is not None:
        evaluation.write(output, detail)


def _check_output(path: str, inputs: list[str], overwrite: bool) -> None:
    """Check that the results can be written, before hours of encoding.

    Raises:
        InputError: for another ending, or a place that cannot be written or is read.
    """
    check_target(path, inputs, overwrite=overwrite)
    place = Path(os.path.realpath(expanded(path)))
    for folder in map(expanded, inputs if place.exists() else ()):
        if folder.is_dir() and place.is_relative_to(os.path.realpath(folder)):
            raise InputError(f"{path}: lies in {folder}, which is read, and would be lost; choose another output")
    if place.suffix not in _ENDINGS:
        raise InputError(f"{path}: no format for the ending {place.suffix!r}; choose one of {', '.join(_ENDINGS)}")
