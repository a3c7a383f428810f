"""Positives from a table of pairs, found by sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from sentrep.data.text.fingerprints import keys_of
from sentrep.errors import InputError
from sentrep.io.chunks import chunks_of

_CHUNK_ROWS = 8192


class Positives:
    """The positive of each sentence that has one.

    Two sentences are the same when they differ in white space only. Where a sentence has several pairs, the first one
    counts; pairs with a blank cell are left out. In memory are the positives and 16 bytes a pair.

    Args:
        name: of the pairs, in messages.
        pairs: sentence and positive, and perhaps more, which is not used.

    Raises:
        InputError: there is one column, or no pair.
    """

    def __init__(self, name: str, pairs: Iterable[Sequence[str]]) -> None:
        keys, texts = [np.empty(0, np.uint64)], [pa.array([], pa.large_string())]
        for chunk in chunks_of(pairs, _CHUNK_ROWS):
            if len(chunk[0]) < 2:
                raise InputError(
                    f"{name}: one column of sentences; expected a sentence and its positive (`reading.pair_columns`)"
                )
            whole = [row for row in chunk if row[0].strip() and row[1].strip()]
            keys.append(_keys([row[0] for row in whole]))
            texts.append(pa.array([row[1] for row in whole], pa.large_string()))
        positives = pd.Series(pd.arrays.ArrowStringArray(pa.concat_arrays(texts)), index=np.concatenate(keys))
        if not len(positives):
            raise InputError(f"{name}: no pairs in it; give a file of sentences and their positives")
        self._positives = positives[~positives.index.duplicated()]

    def __call__(self, sentences: Sequence[str]) -> list[str | None]:
        """The positive of each sentence, or None."""
        return pa.array(self._positives.reindex(_keys(sentences))).to_pylist()


def _keys(sentences: Sequence[str]) -> np.ndarray:
    """64 bits of each: that one of ten million sentences meets another of as many has a probability of 5e-6."""
    return keys_of(" ".join(text.split()) for text in sentences)
