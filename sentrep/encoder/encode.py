"""Texts to vectors, by the `SentenceTransformer` inside an encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import semantic_search
from torch import Tensor

from sentrep import distributed
from sentrep.encoder.compute.rows import to_device
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.errors import InputError
from sentrep.functional.similarity import unit
from sentrep.io.chunks import chunks_of
from sentrep.types import TokenBatch

_UNLIMITED = 10**6
"""Tokens from which on a tokenizer's limit stands for none."""


def _of_model(name: str) -> Any:
    """An attribute of the model inside."""

    def get(encoder: Any) -> Any:
        return getattr(encoder.model, name)

    def put(encoder: Any, value: Any) -> None:
        setattr(encoder.model, name, value)

    return property(get, put)


class Found(NamedTuple):
    """The nearest documents of Q queries, nearest first."""

    scores: NDArray[np.float32]
    """(Q, k) similarities."""
    indices: NDArray[np.int64]
    """(Q, k) places of the documents in their list."""


class TextEncoder:
    """Turns texts into vectors with a `SentenceTransformer`, by torch (`SentenceEncoder`) or a graph (`GraphEncoder`).

    Attributes:
        tokenize: text to token ids for training.
        prompts: texts before a sentence, by name: ``query`` for `encode_query`, ``document`` (or ``passage``,
            ``corpus``) for `encode_document`.
        default_prompt_name: name of the prompt of `encode`; None for none.
        similarity_fn_name: what `similarity` computes: cosine, dot, euclidean or manhattan.
        truncate_dim: dimensions that `encode` keeps; None for all.
        similarity: similarities of all pairs: (n, D), (m, D) → (n, m).
        similarity_pairwise: similarities of row i with row i: (n, D), (n, D) → (n,).
    """

    tokenize: TextTokenizer
    _st: tuple[SentenceTransformer]
    """In a tuple, so that it is no child of an encoder whose own children are its parts."""
    prompts: dict[str, str] = _of_model("prompts")
    default_prompt_name: str | None = _of_model("default_prompt_name")
    similarity_fn_name: Any = _of_model("similarity_fn_name")
    truncate_dim: int | None = _of_model("truncate_dim")
    similarity: Callable[..., Tensor] = _of_model("similarity")
    similarity_pairwise: Callable[..., Tensor] = _of_model("similarity_pairwise")

    @property
    def model(self) -> SentenceTransformer:
        """The model inside, of sentence-transformers, on the same parameters."""
        return self._st[0]

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.model.device

    @property
    def max_seq_length(self) -> int | None:
        """Longest sequence of `encode`, in tokens; with a prompt, the length of the text alone; None for no limit."""
        length = self.model.max_seq_length
        return None if length is None or length > _UNLIMITED else length

    @max_seq_length.setter
    def max_seq_length(self, length: int | None) -> None:
        limit = self.tokenize.limit
        found = [number for number in (length, limit) if number is not None]
        self.model.max_seq_length = min(found, default=1 << 30)

    def evaluating(self) -> TextEncoder:
        """The same encoder in evaluation mode; the mode of this object does not change."""
        return self

    def encode(
        self,
        sentences: str | Sequence[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        **options: Any,
    ) -> Any:
        """Vectors of sentences, in evaluation mode: `SentenceTransformer.encode`.

        Args:
            sentences: one sentence, or any number of them.
            batch_size: sentences in one forward pass.
            show_progress_bar: None shows it when logging is at INFO or below.
            options: of sentence-transformers, such as ``prompt``, ``prompt_name``, ``convert_to_numpy``,
                ``convert_to_tensor``, ``normalize_embeddings``, ``truncate_dim``, ``pool``.

        Returns:
            (n, D) float32; (D,) for a single sentence; a list of n tensors when neither conversion is wanted.

        Raises:
            InputError: for anything in ``sentences`` that is not a string, or is no valid Unicode.
        """
        texts = self._texts(sentences)
        return self.evaluating().model.encode(
            texts, batch_size=batch_size, show_progress_bar=show_progress_bar, **options
        )

    def encode_query(self, sentences: str | Sequence[str], **options: Any) -> Any:
        """`encode` with the prompt called ``query`` before each text, if the model has it."""
        return self.evaluating().model.encode_query(self._texts(sentences), **options)

    def encode_document(self, sentences: str | Sequence[str], **options: Any) -> Any:
        """`encode` with the prompt called ``document``, ``passage`` or ``corpus``, the first that the model has."""
        return self.evaluating().model.encode_document(self._texts(sentences), **options)

    def search(self, queries: str | Sequence[str], documents: Sequence[str], k: int = 10, **options: Any) -> Found:
        """The k nearest documents of each query by `similarity`.

        Args:
            queries: one or Q of them, for `encode_query`.
            documents: for `encode_document`.
            k: documents per query; at most as many as there are.
            options: of `encode`.

        Raises:
            InputError: see `encode`.
        """
        options = {**options, "convert_to_tensor": True}
        asked = self.encode_query(as_list(queries), **options)
        hits = semantic_search(
            asked, self.encode_document(documents, **options), top_k=k, score_function=self.similarity
        )
        scores, indices = ([[hit[key] for hit in row] for row in hits] for key in ("score", "corpus_id"))
        return Found(np.array(scores, np.float32), np.array(indices, np.int64))

    def _texts(self, sentences: Any) -> Any:
        self.tokenize.check_unchanged()
        _check(texts := as_list(sentences))
        return sentences if isinstance(sentences, str) else texts


def encode(
    encoder: TextEncoder,
    sentences: Sequence[str],
    batch_size: int = 32,
    show_progress_bar: bool | None = None,
    shared: bool = False,
    **options: Any,
) -> Tensor:
    """Vectors (n, D), float32, on the CPU, in the order given; for the other arguments see `TextEncoder.encode`.

    With ``shared``, every process must get the same sentences; each encodes a share, and all return all vectors. Shares
    are whole batches, the same batches as with one process, because rounding depends on the padding:
    any number of processes (with the same threads each) gives bit-identical vectors.
    """
    width: Any = options.get("truncate_dim") or encoder.model.get_embedding_dimension()
    if not sentences:
        return torch.zeros(0, width)
    run: Any = encoder.evaluating()
    if not shared:
        found = run.encode(sentences, batch_size, show_progress_bar, convert_to_tensor=True, **options)
        return found.float().cpu()
    order = np.argsort([-len(sentence) for sentence in sentences]).tolist()  # of SentenceTransformer.encode
    out = torch.zeros(len(sentences), width, device=encoder.device)
    for batch in distributed.share([*chunks_of(order, batch_size)]):
        texts = [sentences[row] for row in batch]
        found = run.encode(texts, batch_size, show_progress_bar=False, convert_to_tensor=True, **options)
        out[batch] = found.float()
    return distributed.total(out).cpu()


def as_list(sentences: object) -> list[str]:
    """The sentences as a list; a single one is a list of one.

    Raises:
        InputError: for another type than a string or an iterable.
    """
    if isinstance(sentences, str):
        return [sentences]
    names_first = isinstance(sentences, (bytes, Mapping, Set)) or hasattr(sentences, "columns")
    if names_first or not isinstance(sentences, Iterable):
        what = type(sentences).__name__
        raise InputError(f"expected a sentence or a list of sentences, got {what}; of a table give one column")
    return list(sentences)


def encode_pairs(
    encode_all: Callable[[Sequence[str]], Tensor], first: Sequence[str], second: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Unit vectors of P pairs, (P, D) twice, float32 on the CPU; ``encode_all`` sees every distinct sentence once."""
    distinct = list(dict.fromkeys([*first, *second]))
    index = {sentence: row for row, sentence in enumerate(distinct)}
    vectors = unit(encode_all(distinct)).cpu()
    return vectors[[index[s] for s in first]], vectors[[index[s] for s in second]]


def pad(ids: Sequence[Sequence[int]], pad_token_id: int, device: torch.device | str = "cpu") -> TokenBatch:
    """Right-pad lists of ids to the longest of them: (n, L), L ≥ 1; see `to_device`."""
    width = max(1, *map(len, ids))
    input_ids = torch.tensor([[*row, *[pad_token_id] * (width - len(row))] for row in ids])
    lengths = torch.tensor([len(row) for row in ids])
    mask = (torch.arange(width) < lengths[:, None]).long()
    return TokenBatch(to_device(input_ids, device), to_device(mask, device), lengths.numpy())


def preprocess(tokenize: TextTokenizer, texts: Sequence[Any], prompt: str | None, length: int | None) -> dict[str, Any]:
    """``input_ids`` and ``attention_mask`` (B, L) of texts, as a first module of a `SentenceTransformer` gives them."""
    ids, _ = tokenize([f"{prompt or ''}{text}" for text in texts], length)
    tokens = pad(ids, tokenize.pad_token_id)
    return {"input_ids": tokens.input_ids, "attention_mask": tokens.attention_mask}


def _check(sentences: Sequence[str]) -> None:
    for row, sentence in enumerate(sentences):
        try:
            str.encode(sentence)  # lone surrogates cannot be encoded
        except (TypeError, UnicodeEncodeError):
            raise InputError(
                f"sentences[{row}] is not valid text: {sentence!r:.80}; replace or remove it before encoding"
            ) from None
