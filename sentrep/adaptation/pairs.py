"""Pairs to train on, from the structure of the documents that are not held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sentrep.data.text.documents import Document
from sentrep.io.files import atomic_write

_TITLES = 2
"""A title is paired with so many first passages of its document."""
_STAYS = 0.1
"""The chance that a sentence stays in its passage, so that matching words are not forgotten (Lee et al.
2019, Latent Retrieval for Weakly Supervised Open Domain Question Answering, section 3)."""
_FEWEST_WORDS = 5
"""A sentence with so many words can be a query."""


@dataclass(frozen=True)
class Pair:
    """A query and its passage."""

    query: str
    passage: str
    number: int
    """Number of the whole passage that contains ``passage``."""


def make_pairs(
    documents: Mapping[int, Document], passages: Sequence[tuple[int, tuple[str, ...]]], seed: int = 0
) -> list[Pair]:
    """Make pairs: a title and its text; the last or another sentence of a passage and the rest; a passage and the next.

    Args:
        documents: by number.
        passages: a document's number and sentences; the passages of a document are consecutive.
        seed: of the draws.

    Examples:
        >>> document = Document("On mills", ("A mill turns.", "The wind drives it on.", "So it stands high up."))
        >>> for pair in make_pairs({0: document}, [(0, document.sentences)]):
        ...     print(pair.query, "->", pair.passage)
        On mills -> A mill turns. The wind drives it on. So it stands high up.
        So it stands high up. -> A mill turns. The wind drives it on.
        The wind drives it on. -> A mill turns. So it stands high up.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    pairs: list[Pair] = []
    of_document = 0
    for number, (owner, sentences) in enumerate(passages):
        follows = number > 0 and passages[number - 1][0] == owner
        of_document = of_document + 1 if follows else 1
        text, title = " ".join(sentences), documents[owner].title
        if title is not None and of_document <= _TITLES:
            pairs.append(Pair(title, text, number))
        if follows:
            pairs.append(Pair(" ".join(passages[number - 1][1]), text, number))
        *others, last = range(len(sentences))
        if len(others) < 2:
            continue
        for place in (last, int(rng.choice(others))):
            if len(sentences[place].split()) >= _FEWEST_WORDS:
                rest = text if rng.random() < _STAYS else " ".join(s for n, s in enumerate(sentences) if n != place)
                pairs.append(Pair(sentences[place], rest, number))
    return pairs


def write_columns(path: str | Path, columns: Mapping[str, Sequence[str]]) -> None:
    """Write a table of texts (parquet), whole or not at all."""
    with atomic_write(path) as file:
        pq.write_table(pa.table(dict(columns)), file)
