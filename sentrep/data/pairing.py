"""Positives from a table of pairs, found by sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from datasets import Features, Value

from sentrep.data.files import is_blank, sentences_of
from sentrep.data.fingerprints import keys_of
from sentrep.data.text import Text
from sentrep.errors import InputError


class Positives:
    """The positive of each sentence that has one.

    Two sentences are the same when they differ in white space only. Where a sentence has several pairs, the first one
    counts; pairs with a blank cell are left out. In memory are the positives and 16 bytes a pair.

    Args:
        pairs: sentences and positives, and perhaps more columns, which are not used.

    Raises:
        InputError: there is one column, or no pair.
    """

    def __init__(self, pairs: Text) -> None:
        name = pairs.name
        if len(pairs.rows.column_names or ()) < 2:
            raise InputError(
                f"{name}: one column of sentences; expected a sentence and its positive (`data.pair_columns`)"
            )
        keys, texts = [np.empty(0, np.uint64)], [pa.array([], pa.large_string())]
        for batch in pairs.rows.iter(8192):
            rows = zip(batch["anchor"], batch["positive"], strict=True)
            whole = [row for row in rows if all(row) and not is_blank(row)]
            keys.append(_keys([anchor for anchor, _ in whole]))
            texts.append(pa.array([positive for _, positive in whole], pa.large_string()))
        positives = pd.Series(pd.arrays.ArrowStringArray(pa.concat_arrays(texts)), index=np.concatenate(keys))
        if not len(positives):
            raise InputError(f"{name}: no pairs in it; give a file of sentences and their positives")
        self._positives = positives[~positives.index.duplicated()]

    def __call__(self, sentences: Sequence[str]) -> list[str | None]:
        """The positive of each sentence, or None."""
        return pa.array(self._positives.reindex(_keys(sentences))).to_pylist()


def joined(text: Text, pairs: Text) -> Text:
    """A text of sentences with their positives; a sentence without a pair is its own positive, and ``unpaired``.

    Args:
        text: one column of sentences.
        pairs: see `Positives`.

    Raises:
        InputError: the text has positives of its own, or see `Positives`.
    """
    if text.rows.column_names != ["anchor"]:
        raise InputError(
            f"{text.name}: {len(text.rows.column_names or ())} columns of sentences, but `pairs` gives the positives; "
            "name the one column of the sentences (`columns`), or leave `pairs` out"
        )
    positives = Positives(pairs)

    def add(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        sentences = [sentences_of({"anchor": one})[0] for one in batch["anchor"]]
        found = positives(sentences)
        both = [own if positive is None else positive for own, positive in zip(sentences, found, strict=True)]
        return {"positive": both, "unpaired": [positive is None for positive in found]}

    features = Features(anchor=Value("string"), positive=Value("string"), unpaired=Value("bool"))
    return text._replace(
        rows=text.rows.map(add, batched=True, features=features),
        fingerprint=f"{text.fingerprint}-{pairs.fingerprint}",
        name=f"{text.name} with the pairs of {pairs.name}",
    )


def _keys(sentences: Iterable[str]) -> np.ndarray:
    """64 bits of each: that one of ten million sentences meets another of as many has a probability of 5e-6."""
    return keys_of(" ".join(text.split()) for text in sentences)
