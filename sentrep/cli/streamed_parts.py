"""Sentences in, part files of embeddings out: one pass over the input, whatever is done already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from sentrep.cli.embedding_parts import EmbeddingParts
from sentrep.data.text.fingerprints import TextHash
from sentrep.data.text.shard import Shard


def encode_parts(
    parts: EmbeddingParts, sentences: Iterable[str], embed: Callable[[list[str]], Any], shard: Shard, chunk: int
) -> Iterator[int]:
    """Encode the parts of a shard that nobody has done or is at; a part depends on its own sentences alone.

    Args:
        parts: where they go.
        sentences: all of them, whatever the shard: those of other parts are read over.
        embed: gives vectors (n, D).
        shard: of this process.
        chunk: sentences to embed at a time.

    Yields:
        How many rows of the input have been read.

    Raises:
        InputError: a part of the folder is of another text.
    """
    rows, part, total = iter(sentences), 0, 0
    while (first := next(rows, None)) is not None:
        text = TextHash()
        texts = text.over(chain([first], islice(rows, parts.rows_per_file - 1)))
        if part % shard.count == shard.index:
            with parts.claim(part) as mine:
                if mine:
                    total += parts.add(part, ((lines, embed(lines)) for lines in chunks_of(texts, chunk)), text)
        total += sum(1 for _ in texts)  # of a part that another process does
        parts.check(part, text.hexdigest())
        part += 1
        yield total
    parts.finish(total)


def chunks_of(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of ``size`` sentences, the last one shorter."""
    rows = iter(sentences)
    while chunk := list(islice(rows, size)):
        yield chunk
