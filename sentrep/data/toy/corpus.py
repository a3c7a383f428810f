"""The sentences of the toy corpus."""

from __future__ import annotations

from random import Random

from sentrep.data.toy.grammar import draw_meaning, draw_wording, realise


def sentences(count: int = 30_000, seed: int = 0) -> list[str]:
    """Distinct English sentences from the toy grammar, the same for the same arguments on every machine.

    The grammar makes billions of sentences, so ``count`` may be large. Meanings of `scored_pairs` never occur, whatever
    the seed.

    Args:
        count: how many.
        seed: of a private generator; the global random state is left alone.

    Example:
        >>> sentences(1)
        ['The docker loaded the freighter silently on the reef.']
    """
    rng = Random(seed)
    distinct: dict[str, None] = {}  # a dict keeps the order of drawing, a set would not
    while len(distinct) < count:
        meaning = draw_meaning(rng)
        if meaning.split == "train":
            distinct[realise(meaning, draw_wording(rng))] = None
    return list(distinct)
