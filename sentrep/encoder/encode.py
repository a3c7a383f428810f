"""Encoding many sentences: sorted by length, in batches of about equal work."""

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from sentrep import distributed
from sentrep.encoder.compute.rows import to_device
from sentrep.encoder.text.tokenizer import TextTokenizer
from sentrep.errors import InputError
from sentrep.functional.similarity import cosine_similarity_matrix, unit
from sentrep.io.bars import progress_bar
from sentrep.types import TokenBatch

logger = logging.getLogger("sentrep")

AVERAGE_TOKENS = 32
"""A batch holds ``batch_size`` × this many tokens, padding included: the work of that many average sentences."""

WINDOW = 1 << 14
"""Sentences that are sorted by length together; while one window is encoded, the next one is tokenised. Beside the
vectors themselves, memory does not grow with the text."""


_NORMS = {"euclidean": 2.0, "manhattan": 1.0}
"""Of the difference of two vectors."""


class TextEncoder(ABC):
    """Turns texts into vectors, by torch (`SentenceEncoder`) or an exported graph (`GraphEncoder`).

    Attributes:
        tokenize: text to token ids.
        max_seq_length: longest sequence of `encode`, in tokens; None for the model's own limit.
        prompts: texts before a sentence, by name: ``query`` for `encode_query`, ``document`` (or ``passage``,
            ``corpus``) for `encode_document`.
        default_prompt_name: name of the prompt of `encode`; None for none.
        similarity_fn_name: what `similarity` computes: cosine, dot, euclidean or manhattan.
        truncate_dim: dimensions that `encode` keeps; None for all.
        include_prompt: whether the pooling reads the tokens of a prompt.
    """

    tokenize: TextTokenizer
    max_seq_length: int | None
    prompts: dict[str, str]
    default_prompt_name: str | None
    similarity_fn_name: str
    truncate_dim: int | None
    include_prompt: bool

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where token ids are wanted."""

    @property
    @abstractmethod
    def embedding_dim(self) -> int:
        """D, the width of what `encode` gives."""

    @property
    @abstractmethod
    def normalizes(self) -> bool:
        """Whether vectors have length 1."""

    @abstractmethod
    def embed(self, tokens: TokenBatch) -> Tensor:
        """Vectors (B, D) as `encode` gives them."""

    def evaluating(self) -> TextEncoder:
        """The same encoder in evaluation mode; the mode of this object does not change."""
        return self

    def encode(
        self,
        sentences: str | Sequence[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        prompt: str | None = None,
    ) -> np.ndarray | Tensor | list[Tensor]:
        """Vectors of sentences, in evaluation mode; names and defaults as in sentence-transformers.

        Args:
            sentences: one sentence, or any number of them.
            batch_size: sentences of average length in one forward pass; shorter sentences make larger batches.
            show_progress_bar: None shows it when logging is at INFO or below.
            convert_to_numpy: return one numpy array.
            convert_to_tensor: return one tensor on the encoder's device; takes precedence.
            normalize_embeddings: scale every vector to length 1.
            truncate_dim: number of first dimensions to keep; vectors that a module has normalised are normalised again.
            prompt: text before each sentence; None for the default prompt (``default_prompt_name``).

        Returns:
            (n, D) float32; (D,) for a single sentence; a list of n tensors when neither conversion is wanted.

        Raises:
            InputError: for anything in ``sentences`` that is not a string, or is no valid Unicode.
        """
        single = isinstance(sentences, str)
        vectors = encode(self, as_list(sentences), batch_size, show_progress_bar, False, prompt, truncate_dim)
        if normalize_embeddings:
            vectors = unit(vectors)
        found = vectors[0] if single else vectors
        if convert_to_tensor:
            return found.to(self.device)
        if convert_to_numpy:
            return found.numpy()
        return found if single else list(vectors)

    def encode_query(self, sentences: str | Sequence[str], **options: Any) -> np.ndarray | Tensor | list[Tensor]:
        """`encode` with the prompt called ``query`` before each text, if the model has it."""
        return self.encode(sentences, prompt=_first(self.prompts, "query"), **options)

    def encode_document(self, sentences: str | Sequence[str], **options: Any) -> np.ndarray | Tensor | list[Tensor]:
        """`encode` with the prompt called ``document``, ``passage`` or ``corpus``, the first that the model has."""
        return self.encode(sentences, prompt=_first(self.prompts, "document", "passage", "corpus"), **options)

    def pairwise_cosine(
        self, first: Sequence[str], second: Sequence[str], batch_size: int = 32, show_progress_bar: bool | None = None
    ) -> Tensor:
        """Cosine of P sentence pairs, (P,) float32 on the CPU; every distinct sentence is encoded once."""
        run = functools.partial(encode, self, batch_size=batch_size, show_progress_bar=show_progress_bar)
        one, other = encode_pairs(run, first, second)
        return (one * other).sum(1)

    def similarity(self, embeddings1: np.ndarray | Tensor, embeddings2: np.ndarray | Tensor) -> Tensor:
        """`similarity_fn_name` of all pairs: (n, D), (m, D) → (n, m)."""
        one, other = torch.as_tensor(embeddings1), torch.as_tensor(embeddings2)
        if self.similarity_fn_name == "cosine":
            return cosine_similarity_matrix(one, other)
        if self.similarity_fn_name == "dot":
            return one @ other.T
        return -torch.cdist(one, other, p=_NORMS[self.similarity_fn_name])

    def similarity_pairwise(self, embeddings1: np.ndarray | Tensor, embeddings2: np.ndarray | Tensor) -> Tensor:
        """`similarity_fn_name` of row i with row i: (n, D), (n, D) → (n,)."""
        one, other = torch.as_tensor(embeddings1), torch.as_tensor(embeddings2)
        if self.similarity_fn_name in _NORMS:
            return -(one - other).norm(p=_NORMS[self.similarity_fn_name], dim=-1)
        return (one * other if self.similarity_fn_name == "dot" else unit(one) * unit(other)).sum(-1)


def encode(
    encoder: TextEncoder,
    sentences: Sequence[str],
    batch_size: int = 32,
    show_progress_bar: bool | None = None,
    shared: bool = False,
    prompt: str | None = None,
    truncate_dim: int | None = None,
) -> Tensor:
    """Vectors (n, D), float32, on the CPU, in the order given; for the other arguments see `TextEncoder.encode`.

    With ``shared``, every process must get the same sentences; each encodes a share, and all return all vectors. Shares
    are whole batches, the same batches as with one process, because rounding depends on the padding:
    any number of processes (with the same threads each) gives bit-identical vectors.
    """
    _check(sentences, batch_size)
    if prompt is None:
        prompt = "" if encoder.default_prompt_name is None else encoder.prompts[encoder.default_prompt_name]
    if prompt and not encoder.include_prompt:
        raise InputError(
            "the pooling of this model leaves a prompt out (1_Pooling/config.json, include_prompt: false), and "
            "sentrep's does not; encode with sentence-transformers, or without a prompt (prompt='')"
        )
    if show_progress_bar is None:
        show_progress_bar = logger.isEnabledFor(logging.INFO)
    out, pad_token_id = torch.zeros(len(sentences), encoder.embedding_dim), encoder.tokenize.pad_token_id
    encoder = encoder.evaluating()
    with torch.inference_mode(), _progress(len(sentences), show_progress_bar) as show:
        for start, ids in _tokenized(encoder, sentences, prompt):
            lengths, tokens = [len(row) for row in ids], batch_size * AVERAGE_TOKENS
            batches = list(length_batches(lengths, tokens))
            order, vectors = [], []
            for batch in distributed.share(batches) if shared else batches:
                vectors.append(encoder.embed(pad([ids[row] for row in batch], pad_token_id, encoder.device)).float())
                order += batch
                show(start + len(order))
            if vectors:  # read once a window: reading makes an accelerator wait
                out[start : start + WINDOW][order] = torch.cat(vectors).cpu()
            show(start + len(ids))
    out = distributed.total(out.to(encoder.device)).cpu() if shared else out
    kept = encoder.truncate_dim if truncate_dim is None else truncate_dim
    if kept is None:
        return out
    return unit(out[:, :kept]) if encoder.normalizes else out[:, :kept]


@contextmanager
def _progress(total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if ``shown``; the yielded function takes the number of finished sentences."""
    if not shown:
        yield lambda done: None
        return
    with progress_bar(Console(stderr=True)) as progress:
        task = progress.add_task("Encoding", total=total, note="")
        yield lambda done: progress.update(task, completed=done)


def _tokenized(encoder: TextEncoder, sentences: Sequence[str], prompt: str) -> Iterator[tuple[int, list[list[int]]]]:
    """Where each window starts, and its token ids; the next window is tokenised while the caller works on this one."""

    def ids_from(start: int) -> list[list[int]]:
        texts = sentences[start : start + WINDOW]
        return encoder.tokenize([prompt + text for text in texts] if prompt else texts, encoder.max_seq_length)[0]

    if len(sentences) <= WINDOW:  # a thread costs more than a sentence's ids
        if sentences:
            yield 0, ids_from(0)
        return
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming = thread.submit(ids_from, 0)
        for start in range(0, len(sentences), WINDOW):
            ids = coming.result()
            if start + WINDOW < len(sentences):
                coming = thread.submit(ids_from, start + WINDOW)
            yield start, ids


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


def _first(prompts: Mapping[str, str], *names: str) -> str:
    """The first of these prompts that there is, or an empty one."""
    return next((prompts[name] for name in names if prompts.get(name)), "")


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


def length_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Batches of rows by falling length, each with at most ``tokens`` padded tokens.

    The longest sentences come first: memory peaks at once, and the progress bar speeds up rather than down.

    Args:
        lengths: tokens of each sentence.
        tokens: maximum number of tokens of a batch, padding included.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        count = max(1, tokens // max(1, lengths[order[start]]))
        yield order[start : start + count]
        start += count


def _check(sentences: Sequence[str], batch_size: int) -> None:
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    for row, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise InputError(
                f"sentences[{row}] is {type(sentence).__name__}, not a string; replace or remove it before encoding"
            )
        try:
            sentence.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"sentences[{row}] has half a surrogate pair at character {error.start}, which no text may hold; "
                "read it again with the right encoding, or replace the character"
            ) from None
