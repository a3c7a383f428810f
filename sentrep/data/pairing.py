"""Positives from a table of pairs, found by sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from datasets import Features, Value

from sentrep.data.files import is_blank
from sentrep.data.fingerprints import keys_of
from sentrep.data.text import Text
from sentrep.errors import InputError


def joined(text: Text, pairs: Text) -> Text:
    """A text of sentences with their positives; a sentence without a pair is its own positive, and ``unpaired``.

    Two sentences are the same when they differ in white space only. Where a sentence has several pairs, the first one
    counts; pairs with a blank cell are left out. In memory are the positives and 16 bytes a pair.

    Args:
        text: one column of sentences.
        pairs: sentences and positives, and perhaps hard negatives, which are not used.

    Raises:
        InputError: the text has positives of its own, or there is no pair.
    """
    if text.rows.column_names != ["anchor"]:
        raise InputError(f"{text.name}: has positives of its own; name its column of sentences, or leave `pairs` out")
    if "positive" not in (pairs.rows.column_names or ()):
        raise InputError(f"{pairs.name}: one column; expected a sentence and its positive (`data.pair_columns`)")
    keys, texts = [np.empty(0, np.uint64)], [pa.array([], pa.large_string())]
    for batch in pairs.rows.iter(8192):
        rows = zip(batch["anchor"], batch["positive"], strict=True)
        whole = [row for row in rows if all(row) and not is_blank(row)]
        keys.append(_keys([anchor for anchor, _ in whole]))
        texts.append(pa.array([positive for _, positive in whole], pa.large_string()))
    known = pd.Series(pd.arrays.ArrowStringArray(pa.concat_arrays(texts)), index=np.concatenate(keys))
    if not len(known):
        raise InputError(f"{pairs.name}: no pairs in it; give a file of sentences and their positives")
    known = known[~known.index.duplicated()]

    def add(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        sentences = [sentence or "" for sentence in batch["anchor"]]
        found = pa.array(known.reindex(_keys(sentences))).to_pylist()
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
