"""mteb's tasks with our encoders: ``mteb.evaluate(mteb_model(encoder), tasks)``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sentrep.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.vectors import check_vectors
from sentrep.extras import require
from sentrep.io.hub import fail_fast

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import SentenceTransformerEncoderWrapper


def mteb_model(encoder: SentenceEncoder, name: str = "sentrep/encoder") -> SentenceTransformerEncoderWrapper:
    """The model of an encoder for mteb (2.x, the extra ``mteb``), in mteb's own wrapper of sentence-transformers.

    mteb keeps results on the disk by model name and revision. The revision is the encoder's fingerprint, so that
    another checkpoint of the same name never gets old results.

    Args:
        encoder: any.
        name: of the model in mteb's results, ``organisation/model``.

    Raises:
        InputError: mteb is not installed; later, in an evaluation, vectors are not finite or all equal.
        ValueError: mteb refuses the name.

    Examples:
        >>> import mteb  # doctest: +SKIP
        >>> mteb.evaluate(mteb_model(encoder), mteb.get_tasks(tasks=["STSBenchmark"]))  # doctest: +SKIP
    """
    require("mteb_model", "mteb", "mteb")
    from mteb.models import ModelMeta, SentenceTransformerEncoderWrapper

    class Checked(SentenceTransformerEncoderWrapper):
        def encode(self, *inputs: Any, task_metadata: TaskMetadata, **options: Any) -> Any:
            vectors: Any = super().encode(*inputs, task_metadata=task_metadata, **options)
            check_vectors(vectors, task_metadata.name)
            return vectors

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The `get_sentence_embedding_dimension`", FutureWarning)  # of mteb's own call
        model = Checked(encoder.evaluating().model)
    facts = {**dict(model.mteb_model_meta), "name": name, "revision": fingerprint(encoder)}
    model.mteb_model_meta = ModelMeta(**facts)
    return model


def load_task(name: str) -> AbsTask:
    """Download a task of mteb: its test split and, of several languages, English.

    Raises:
        InputError: data that cannot be downloaded, or mteb is not installed.
        KeyError: of mteb, for an unknown name.
    """
    require("the suite mteb", "mteb", "mteb")
    import mteb

    try:
        metadata = mteb.get_task(name).metadata
        # mteb's protocol for some tasks has a validation split as well, which papers do not print
        splits = ["test"] if "test" in metadata.eval_splits else None
        english = ["en"] if metadata.is_multilingual and "en" in metadata.eval_langs else None
        task = mteb.get_task(name, eval_splits=splits, hf_subsets=english)
        fail_fast()
        task.load_data()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name}: mteb's data cannot be downloaded from the Hub ({type(error).__name__}); check the network"
        ) from error
    return task


def evaluate_tasks(
    encoder: SentenceEncoder,
    tasks: Sequence[AbsTask],
    *,
    batch_size: int = 64,
    show_progress_bar: bool | None = None,
) -> list[TaskResult]:
    """Score an encoder by mteb, under its protocol: the main score of each task.

    Args:
        encoder: any.
        tasks: see `load_task`.
        batch_size: as in `SentenceEncoder.encode`.
        show_progress_bar: likewise.

    Raises:
        InputError: vectors that are not finite or all equal.
    """
    import mteb

    how: Any = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
    model, results = mteb_model(encoder), []
    for task in tasks:
        done = mteb.evaluate(model, task, cache=None, encode_kwargs=how, show_progress_bar=False, co2_tracker=False)
        found = done.task_results[0]
        metadata = task.metadata
        main = metadata.main_score
        score = np.mean([scores[main] for split in found.scores.values() for scores in split])
        data = "{path}@{revision}".format(**metadata.dataset)
        results.append(TaskResult(metadata.name, "MTEB", {}, {main: 100.0 * float(score)}, data))
    return results
