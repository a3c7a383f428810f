"""Encoding many sentences: sorted by length, in batches of about equal work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from sentrep import distributed
from sentrep.encoder.protocol import Encoder
from sentrep.errors import InputError
from sentrep.functional.similarity import unit
from sentrep.types import TokenBatch

logger = logging.getLogger("sentrep")

AVERAGE_TOKENS = 32
"""A batch holds ``batch_size`` × this many tokens, padding included: the work of that many average sentences."""

WINDOW = 1 << 14
"""Sentences that are sorted by length together; while one window is encoded, the next one is tokenised. Beside the
vectors themselves, memory does not grow with the text."""


def encode(
    encoder: Encoder,
    sentences: Sequence[str],
    batch_size: int,
    show_progress_bar: bool | None,
    shared: bool = False,
) -> Tensor:
    """Vectors (n, D), float32, on the CPU, in the order given.

    With ``shared``, every process must be given the same sentences; each encodes a share, and all get all vectors. It
    is whole batches that are shared out, the same batches as of one process, because rounding depends on the padding:
    the vectors of any number of processes (with the same threads each) are those of one, to the bit.
    """
    _check(sentences, batch_size)
    if show_progress_bar is None:
        show_progress_bar = logger.isEnabledFor(logging.INFO)
    out = torch.zeros(len(sentences), encoder.embedding_dim)
    was_training = encoder.training
    encoder.eval()
    progress = Progress(console=Console(stderr=True), disable=not show_progress_bar)
    try:
        with torch.inference_mode(), progress:
            task = progress.add_task("Encoding", total=len(sentences))
            for start, ids in _tokenized(encoder, sentences):
                batches = list(length_batches([len(x) for x in ids], batch_size * AVERAGE_TOKENS))
                mine = distributed.share(batches) if shared else batches
                vectors = []
                for rows in mine:
                    tokens = pad([ids[row] for row in rows], encoder.tokenize.pad_token_id, encoder.device)
                    vectors.append(encoder.embed(tokens).float())
                    progress.advance(task, len(rows))
                if vectors:  # read once a window: reading makes an accelerator wait
                    out[start : start + WINDOW][[row for rows in mine for row in rows]] = torch.cat(vectors).cpu()
                progress.update(task, completed=start + len(ids))
    finally:
        encoder.train(was_training)
    return distributed.total(out.to(encoder.device)).cpu() if shared else out


def _tokenized(encoder: Encoder, sentences: Sequence[str]) -> Iterator[tuple[int, list[list[int]]]]:
    """Where each window starts, and its token ids; the next window is tokenised while the caller works on this one."""

    def ids_from(start: int) -> list[list[int]]:
        return encoder.tokenize(sentences[start : start + WINDOW], encoder.max_seq_length)[0]

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
        InputError: for what holds no sentences.
    """
    if isinstance(sentences, str):
        return [sentences]
    if isinstance(sentences, (bytes, Mapping)) or not isinstance(sentences, Iterable):
        raise InputError(f"expected a sentence or a list of sentences, got {type(sentences).__name__}")
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
    """Right-pad lists of ids to the longest of them: (n, L). The copy to a GPU does not wait for the work before it."""
    width = max(map(len, ids))
    input_ids = torch.tensor([[*row, *[pad_token_id] * (width - len(row))] for row in ids])
    lengths = torch.tensor([len(row) for row in ids])
    mask = (torch.arange(width) < lengths[:, None]).long()
    if torch.device(device).type == "cuda":
        input_ids, mask = input_ids.pin_memory(), mask.pin_memory()
    input_ids, mask = input_ids.to(device, non_blocking=True), mask.to(device, non_blocking=True)
    return TokenBatch(input_ids, mask, sum(map(len, ids)))


def length_batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows by falling length, so many at a time that padded rows × columns stay within ``tokens``.

    The longest come first: memory peaks at once, and the progress bar gets faster rather than slower.
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
                f"sentence {row} is {type(sentence).__name__}, not a string; replace or remove it before encoding"
            )
        if not sentence.isascii():
            try:
                sentence.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    f"sentence {row} has half a surrogate pair at character {error.start}, which is no text; "
                    "read it again with the right encoding, or replace the character"
                ) from None
