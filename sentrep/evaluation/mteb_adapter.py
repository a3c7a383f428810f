"""A `SentenceEncoder` for mteb: ``mteb.evaluate(MTEBEncoder(encoder), tasks)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from sentrep.encoder import SentenceEncoder
from sentrep.encoder.fingerprint import fingerprint
from sentrep.errors import InputError
from sentrep.evaluation.vectors import encode_texts, refuse_collapse

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models import ModelMeta


class MTEBEncoder:
    """Wraps an encoder for mteb (2.x, the extra ``mteb``), after its encoder protocol.

    Pooling, prompt and length are the encoder's own; mteb's instructions are not used. mteb keeps results on the disk
    by model name and revision. The revision is the encoder's fingerprint, so that another checkpoint of the same name
    never gets old results.

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
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        task_metadata: TaskMetadata | None = None,
        **_: Any,
    ) -> np.ndarray:
        """Vectors (N, D) of all texts of a loader, float32.

        Args:
            inputs: batches with the key ``text``; of a document, mteb has put the title in front.
            batch_size: as in `SentenceEncoder.encode`.
            show_progress_bar: likewise.
            task_metadata: names the task in messages.
            _: split and prompt type from mteb, which change nothing here.

        Raises:
            InputError: inputs that are not text, or vectors that are not finite or all equal.
        """
        texts: list[str] = []
        for batch in inputs:
            if "text" not in batch:
                raise InputError(f"mteb gave inputs of {', '.join(batch)}; this model encodes text only")
            texts.extend(batch["text"])
        name = self.name if task_metadata is None else task_metadata.name
        vectors = encode_texts(self.encoder, texts, name, batch_size, show_progress_bar)
        refuse_collapse(vectors, name)
        return vectors

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
