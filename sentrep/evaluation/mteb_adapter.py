"""mteb's tasks with our encoders: ``mteb.evaluate(MTEBEncoder(encoder), tasks)``."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from sentrep.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation.results import TaskResult
from sentrep.evaluation.vectors import encode_texts
from sentrep.extras import require
from sentrep.io.hub import fail_fast

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import ModelMeta
    from mteb.types import PromptType

_SUBQUERIES = "max_over_subqueries_"
"""Begins the names of MindSmallReranking's scores."""
_SHOWN = (
    "accuracy",
    "f1",
    "v_measure",
    "map_at_1",
    "map_at_1000",
    "mrr_at_1",
    "mrr_at_10",
    "ndcg_at_10",
    "recall_at_10",
)
"""Scores of mteb that a report shows beside a task's main score."""


class MTEBEncoder:
    """Wraps an encoder for mteb (2.x, the extra ``mteb``), after its encoder protocol.

    Pooling and length are the encoder's own. The prompt is the one that mteb's wrapper of sentence-transformers takes
    from the model's ``prompts``: the first of ``TASK-query`` (or ``TASK-document``), ``TASK``, ``TYPE-query``, ``TYPE``
    and ``query``, where TYPE is the type of the task, such as ``Classification``. mteb's instructions are not used.

    mteb keeps results on the disk by model name and revision. The revision is the encoder's fingerprint, so that
    another checkpoint of the same name never gets old results.

    Args:
        encoder: any.
        name: of the model in mteb's results, ``organisation/model``.

    Raises:
        InputError: for a name of another form.

    Examples:
        >>> import mteb  # doctest: +SKIP
        >>> mteb.evaluate(MTEBEncoder(encoder), mteb.get_tasks(tasks=["STSBenchmark"]))  # doctest: +SKIP
    """

    def __init__(self, encoder: SentenceEncoder, name: str = "sentrep/encoder") -> None:
        if name.count("/") != 1 or not all(name.split("/")):
            raise InputError(f"the model's name for mteb is {name!r}; expected organisation/model")
        self.encoder = encoder
        self.name = name

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: TaskMetadata,
        prompt_type: PromptType | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        **_: Any,
    ) -> np.ndarray:
        """Vectors (N, D) of all texts of a loader, float32.

        Args:
            inputs: batches with the key ``text``; of a document, mteb has put the title in front.
            task_metadata: name and type of the task, which choose the prompt.
            prompt_type: whether the texts are queries or documents; None for neither.
            batch_size: as in `SentenceEncoder.encode`.
            show_progress_bar: likewise.
            _: split and subset, which change nothing here.

        Raises:
            InputError: inputs that are not text, or vectors that are not finite or all equal.
        """
        texts: list[str] = []
        for batch in inputs:
            if "text" not in batch:
                raise InputError(f"mteb gave inputs of {', '.join(batch)}; this model encodes text only")
            texts.extend(batch["text"])
        prompt = self._prompt(task_metadata, prompt_type)
        return encode_texts(self.encoder, texts, task_metadata.name, batch_size, show_progress_bar, prompt)

    def _prompt(self, task: TaskMetadata, prompt_type: PromptType | None) -> str | None:
        """The prompt; None for the model's default prompt, which queries and documents do not take."""
        kind = "" if prompt_type is None else prompt_type.value
        names = [f"{task.name}-{kind}", task.name, f"{task.type}-{kind}", task.type, kind]
        found = (self.encoder.prompts[name] for name in names if name in self.encoder.prompts)
        return next(found, "" if kind else None)

    def similarity(self, embeddings1: np.ndarray | Tensor, embeddings2: np.ndarray | Tensor) -> Tensor:
        """Cosine of all pairs: (n, D), (m, D) → (n, m)."""
        return self.encoder.similarity(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: np.ndarray | Tensor, embeddings2: np.ndarray | Tensor) -> Tensor:
        """Cosine of row i with row i: (n, D), (n, D) → (n,)."""
        return self.encoder.similarity_pairwise(embeddings1, embeddings2)

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """The description of the model for mteb's results."""
        from mteb.models import ModelMeta
        from mteb.models.model_meta import ScoringFunction

        return ModelMeta.create_empty(
            {
                "name": self.name,
                "revision": fingerprint(self.encoder),
                "n_parameters": sum(p.numel() for p in self.encoder.parameters()),
                "embed_dim": self.encoder.embedding_dim,
                "max_tokens": self.encoder.max_seq_length,
                "similarity_fn_name": ScoringFunction.COSINE,
                "framework": ["PyTorch"],
            }
        )


def load_task(name: str) -> AbsTask:
    """Download a task of mteb: its test split and, of several languages, English.

    Raises:
        InputError: an unknown name, data that cannot be downloaded, or mteb is not installed.
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
    except KeyError as error:
        hint = str(error.args[0]).removeprefix("KeyError: ")
        raise InputError(f"mteb has no task {name!r} ({hint}); give the name of a task") from error
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
    """Score an encoder by mteb, under its protocol.

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
    model, results = MTEBEncoder(encoder), []
    for task in tasks:
        # mteb continues to draw after the last evaluation; every evaluation must draw the same samples
        task.rng_state, task.np_rng = random.Random(task.seed), np.random.default_rng(task.seed)
        done = mteb.evaluate(model, task, cache=None, encode_kwargs=how, show_progress_bar=False, co2_tracker=False)
        found = done.task_results[0]
        metadata = task.metadata
        subsets = [scores for split in found.scores.values() for scores in split]
        shown = dict.fromkeys(
            [metadata.main_score, *(key for key in subsets[0] if key.removeprefix(_SUBQUERIES) in _SHOWN)]
        )
        values = {key: 100.0 * float(np.mean([scores[key] for scores in subsets])) for key in shown}
        data = "{path}@{revision}".format(**metadata.dataset)
        results.append(TaskResult(metadata.name, "MTEB", {}, values, data))
    return results
