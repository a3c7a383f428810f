"""Nearly equal sentences: MinHash proposes (through ``datasketch``), the exact Jaccard similarity decides."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sentrep.errors import InputError
from sentrep.extras import require

if TYPE_CHECKING:
    from datasketch import MinHash

_PERMUTATIONS = 64
_WEIGHTS = (0.003, 0.997)
"""How much datasketch minds a pair proposed in vain and a pair missed, when it chooses its bands."""
_LOWEST = 0.5
"""Below this LSH proposes a good part of the index for every sentence."""
_HIGHEST = 0.99
"""Above this datasketch finds no bands."""


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


class NearIndex:
    """An index that finds sentences which share most of their character trigrams with a query.

    Every returned pair is verified: its Jaccard similarity is computed from the trigrams themselves. A pair
    may be missed (chance at most 1 in 100 at the threshold, less above), because MinHash proposes the pairs.

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

        self._threshold, self._sentences = threshold, list(sentences)
        self.lsh = MinHashLSH(min(threshold, _HIGHEST), _PERMUTATIONS, weights=_WEIGHTS)
        for number, sketch in enumerate(_sketches(self._sentences)):
            self.lsh.insert(number, sketch, check_duplication=False)

    def near(self, texts: Sequence[str]) -> Iterator[tuple[int, str, float]]:
        """Position in ``texts``, sentence of the index and similarity of every near pair; equal strings are not."""
        for position, (text, sketch) in enumerate(zip(texts, _sketches(texts), strict=True)):
            for number in sorted(self.lsh.query(sketch)):
                sentence = self._sentences[number]
                similarity = jaccard(shingles(text), shingles(sentence))
                if sentence != text and similarity >= self._threshold:
                    yield position, sentence, similarity


def _sketches(texts: Sequence[str]) -> Iterator[MinHash]:
    from datasketch import MinHash

    trigrams = ([trigram.encode() for trigram in shingles(text)] for text in texts)
    return MinHash.generator(trigrams, num_perm=_PERMUTATIONS, hashfunc=zlib.crc32)
