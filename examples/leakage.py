"""Sentences of evaluation sets that stand in the training text, equal or nearly equal.

Two sentences are nearly equal if the Jaccard similarity of their character trigrams is at least `THRESHOLD`. MinHash
(datasketch) proposes the pairs, and the trigrams themselves decide; a pair at the threshold is missed once in 100.

Needs datasketch (pip install datasketch). Run it: python leakage.py                    # the toy corpus and its pairs
Of your own text and sets: python leakage.py wiki.txt stsb sickr pairs.csv              # names or files of data.val
"""

import sys
import unicodedata
import zlib
from collections.abc import Iterable

from datasketch import MinHash, MinHashLSH

from sentrep.data import load, load_sts

THRESHOLD = 0.8
EMPTY = MinHash(64, hashfunc=zlib.crc32)


def normalise(text: str) -> str:
    """Unicode NFKC, case folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def trigrams(text: str) -> set[bytes]:
    padded = f" {text} "
    return {padded[start : start + 3].encode() for start in range(len(padded) - 2)}


def sketch(parts: set[bytes]) -> MinHash:
    made = EMPTY.copy()  # with the permutations, which take time to draw
    made.update_batch(parts)
    return made


def count(train: Iterable[str], sets: dict[str, list[str]]) -> dict[str, tuple[int, int, int]]:
    """By set: distinct sentences, those equal to a training sentence, and others near a training sentence."""
    own = {name: {normalise(text) for text in texts} - {""} for name, texts in sets.items()}
    index = MinHashLSH(THRESHOLD, 64, weights=(0.003, 0.997))  # rather propose a pair in vain than miss a pair
    for text in set().union(*own.values()):
        index.insert(text, sketch(trigrams(text)))
    equal, near = set(), set()
    for text in map(normalise, train):
        mine = trigrams(text)
        for other in index.query(sketch(mine)):
            if len(mine & trigrams(other)) >= THRESHOLD * len(mine | trigrams(other)):
                (equal if other == text else near).add(other)
    return {name: (len(texts), len(texts & equal), len(texts & near - equal)) for name, texts in own.items()}


if __name__ == "__main__":
    text, *names = sys.argv[1:] or ("toy", "toy-dev")
    sets = {name: [*(pairs := load_sts(name)).first, *pairs.second] for name in names}
    sentences = (sentence or "" for row in load(text, streaming=True) for sentence in row.values())
    print(f"{'set':<20}{'sentences':>10}{'equal':>8}{'near':>8}{'share':>9}")
    for name, (total, equal, near) in count(sentences, sets).items():
        print(f"{name:<20}{total:>10,}{equal:>8,}{near:>8,}{(equal + near) / total:>9.2%}")
