"""Nearly equal sentences: MinHash proposes (through ``datasketch``), the exact Jaccard similarity decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sentrep.errors import InputError
from sentrep.extras import require

if TYPE_CHECKING:
    from datasketch import MinHash

_PERMUTATIONS = 64
_RECALL = 0.99
_LOWEST = 0.5
"""Below this LSH proposes a good part of the index for every sentence."""


def shingles(text: str) -> set[str]:
    """The character trigrams of a text with a blank before and after it; never empty.

    Examples:
        >>> sorted(shingles("a b"))
        [' a ', ' b ', 'a b']
    """
    padded = f" {text or ' '} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def jaccard(first: set[str], second: set[str]) -> float:
    """|A ∩ B| / |A ∪ B| of two sets that are not both empty, in [0, 1]."""
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


def bands(threshold: float) -> tuple[int, int]:
    """Bands and rows of the LSH: as many rows a band (few proposals) as leave a recall of 0.99 at the threshold.

    A pair of similarity s is proposed with probability 1 − (1 − s^r)^b; above the threshold the recall is higher.

    Examples:
        >>> bands(0.8)
        (12, 5)
    """
    rows = max(r for r in range(1, 9) if r == 1 or 1 - (1 - threshold**r) ** (_PERMUTATIONS // r) >= _RECALL)
    return _PERMUTATIONS // rows, rows


class NearIndex:
    """Sentences to be found again by sentences that share most of their character trigrams with them.

    Every pair that is given back was verified: its Jaccard similarity is computed from the trigrams themselves. A pair
    may be missed (chance at most 1 in 100 at the threshold, less above), because MinHash proposes what is verified.

    Args:
        sentences: distinct, normalised.
        threshold: least similarity, in [0.5, 1].

    Raises:
        InputError: a threshold out of range, or `datasketch` is not installed.
    """

    def __init__(self, sentences: Sequence[str], threshold: float) -> None:
        if not _LOWEST <= threshold <= 1:
            raise InputError(f"threshold {threshold}: expected a Jaccard similarity from {_LOWEST} to 1")
        require("looking for near duplicates", "leakage", "datasketch")
        from datasketch import MinHashLSH

        self._threshold = threshold
        self._sentences = list(sentences)
        self._lsh = MinHashLSH(num_perm=_PERMUTATIONS, params=bands(threshold))
        for number, sketch in enumerate(_sketches(self._sentences)):
            self._lsh.insert(number, sketch, check_duplication=False)

    def near(self, texts: Sequence[str]) -> Iterator[tuple[int, str, float]]:
        """Position in ``texts``, sentence of the index and similarity of every near pair; equal strings are not."""
        for position, (text, sketch) in enumerate(zip(texts, _sketches(texts), strict=True)):
            proposed = self._lsh.query(sketch)
            if not proposed:
                continue
            own = shingles(text)
            for number in sorted(proposed):
                sentence = self._sentences[number]
                if sentence != text and (similarity := jaccard(own, shingles(sentence))) >= self._threshold:
                    yield position, sentence, similarity


def _sketches(texts: Sequence[str]) -> Iterator[MinHash]:
    """MinHash of the trigrams of every text. The trigrams of all texts are hashed at once, without sets of strings:
    the minimum over a list is that over the set, and equal hashes of different trigrams only change what is proposed.
    """
    from datasketch import MinHash

    joined = "".join(f" {text or ' '} " for text in texts)
    codes = np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)
    hashes = (codes[:-2] * np.uint32(0x9E3779B1) + codes[1:-1]) * np.uint32(0x85EBCA6B) + codes[2:]
    ends = np.cumsum([max(len(text), 1) + 2 for text in texts]).tolist()
    starts = [0, *ends]
    parts = (hashes[start : end - 2].tolist() for start, end in zip(starts, ends, strict=False))
    return MinHash.generator(parts, num_perm=_PERMUTATIONS, hashfunc=int)
