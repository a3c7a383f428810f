"""``sentrep evaluate``: the task suites."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from sentrep.cli.errors import UsageError
from sentrep.io.paths import check_target


def evaluate(
    model: str,
    *,
    suite: Literal["sts", "transfer"] = "sts",
    sets: list[str] | None = None,
    mteb: list[str] | None = None,
    sts_folder: str | None = None,
    columns: list[str | int] | None = None,
    batch_size: int = 64,
    pooling: str | None = None,
    device: str | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    output: str | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
) -> None:
    """Score a model on a suite of tasks with frozen vectors; print a table.

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
        output: also write everything to this file, as JSON: scores, settings, versions, fingerprints of data and model.
        overwrite: replace an output that is there already.
        trust_remote_code: run code that the model names: your own module after the pooling, or a hub model's code.
    """
    from sentrep.cli.models import in_precision, load_encoder
    from sentrep.evaluation import Evaluation

    if output is not None:
        check_target(output, [model, *(sets or ())], overwrite=overwrite)
    if mteb is not None and (suite, sets) != ("sts", None):
        raise UsageError("evaluate: --mteb names the tasks; leave out --suite and --sets")
    tasks = suite if mteb is None else "mteb"
    if columns is not None and tasks != "sts":
        raise UsageError(f"evaluate: --columns belong to files of sts; {tasks} has no use for them")
    encoder = load_encoder(model, pooling, device, trust_remote_code)
    loaded, score = _load(tasks, sets if mteb is None else mteb, sts_folder, columns)
    if not loaded:
        raise UsageError("evaluate: no set to score; name one, or leave the option out")
    with in_precision(precision, encoder):
        start = time.perf_counter()
        results = score(encoder, loaded, batch_size=batch_size, show_progress_bar=True)
        seconds = time.perf_counter() - start
    evaluation = Evaluation.of(encoder, model, results, seconds, precision=precision, suite=tasks)
    evaluation.print()
    if output is not None:
        evaluation.write(output)


def _load(
    suite: str, sets: Sequence[str] | None, sts_folder: str | None, columns: Sequence[str | int] | None
) -> tuple[list[Any], Callable[..., Any]]:
    """The sets of a suite, and the function that scores them."""
    from sentrep import evaluation
    from sentrep.data import SET_NAMES, TRANSFER_NAMES, PairsFile, load_transfer
    from sentrep.data.sets.sts import load_all_sts
    from sentrep.evaluation.mteb_adapter import evaluate_tasks, load_task

    if suite == "mteb":
        return [load_task(name) for name in sets or ()], evaluate_tasks
    if suite == "transfer":
        names = TRANSFER_NAMES if sets is None else sets
        return [load_transfer(name, sts_folder or ".") for name in names], evaluation.evaluate_transfer
    if sets is None:  # SICK-R's published split is not on the Hub
        sets = [name for name in evaluation.DEFAULT_SUITE if sts_folder is not None or name != "sickr"]
    specs: list[Any] = list(sets)
    if columns is not None:
        specs = [name if name.lower() in SET_NAMES else PairsFile(name, tuple(columns)) for name in sets]  # type: ignore[arg-type]
    return load_all_sts(specs, sts_folder), evaluation.evaluate_sts
