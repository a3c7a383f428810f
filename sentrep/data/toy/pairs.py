"""Graded pairs: the similarity of two sentences is the agreement of their meaning slots, never of their words."""

from __future__ import annotations

import zlib
from dataclasses import astuple, replace
from random import Random

from sentrep.data.toy.grammar import SCENE_SLOTS, SPLITS, Meaning, Wording, draw_meaning, draw_wording, realise
from sentrep.errors import InputError
from sentrep.types import ScoredPairs

PAIRS = 750
"""Pairs per split."""

SLOT_WEIGHTS = {
    "domain": 1.0,
    "agent": 1.0,
    "action": 1.0,
    "object": 1.0,
    "place": 0.4,
    "time": 0.2,
    "manner": 0.2,
    "negated": 0.1,
    "question": 0.1,
}
"""What the agreement of each slot adds to the grade; all of them make 5."""

_CONTRARY = 0.25
"""Probability that a choice of words is made against the grade instead of at random."""


def scored_pairs(split: str) -> ScoredPairs:
    """The toy's graded pairs of a split, always the same.

    The second meaning of a pair is the first with some slots drawn again, between none and all of them. So that
    counting common words does not solve it, similar pairs (grade of 2.5 or more) are often given another template and
    other synonyms, the others often the same ones. No meaning occurs in two splits, nor in `sentences`.

    Args:
        split: ``"dev"`` or ``"test"``.

    Returns:
        `PAIRS` pairs with grades from 0 (unrelated) to 5 (the same meaning).

    Raises:
        InputError: for another split.
    """
    if split not in SPLITS[1:]:
        raise InputError(f"toy pairs: found the split {split!r}; expected 'dev' or 'test'; name one of them")
    rng = Random(zlib.crc32(split.encode()))
    meanings = [_related_meanings(split, rng) for _ in range(PAIRS)]
    scores = [similarity(first, second) for first, second in meanings]
    first, second = [], []
    for (one, other), score in zip(meanings, scores, strict=True):
        wording = draw_wording(rng)
        first.append(realise(one, wording))
        second.append(realise(other, _contrary_wording(wording, similar=score >= 2.5, rng=rng)))
    return ScoredPairs(
        f"toy-{split}", first, second, scores, protocol="toy: agreement of meaning slots, not a benchmark"
    )


def similarity(first: Meaning, second: Meaning) -> float:
    """The grade 0-5 of two meanings: Σ over the slots that agree of `SLOT_WEIGHTS`.

    Agents, actions, objects and places of two domains never agree; a slot that is empty in both does.

    Examples:
        >>> chef = Meaning(0, 0, 0, 0, place=0, time=None, manner=0, negated=False, question=False)
        >>> similarity(chef, replace(chef, object=3)), similarity(chef, replace(chef, domain=1))
        (4.0, 0.6)
    """

    def agree(slot: str) -> bool:
        value = getattr(first, slot)
        comparable = slot not in SCENE_SLOTS or value is None or first.domain == second.domain
        return comparable and value == getattr(second, slot)

    return round(sum(weight for slot, weight in SLOT_WEIGHTS.items() if agree(slot)), 2)


def _related_meanings(split: str, rng: Random) -> tuple[Meaning, Meaning]:
    """Two meanings of ``split`` that differ in few slots or in many, each amount about as likely as another."""
    distance = rng.random()
    slots = [slot for slot in SLOT_WEIGHTS if rng.random() < distance]
    if "domain" in slots and rng.random() > distance:
        slots.remove("domain")  # another domain makes everything in it another, so fewer pairs get one
    while True:
        first = draw_meaning(rng)
        if first.split != split:
            continue
        for _ in range(50):  # some slots have too few values to stay within the split: then start from another meaning
            drawn = draw_meaning(rng)
            second = replace(first, **{slot: getattr(drawn, slot) for slot in slots})
            if second.split == split and (second != first or not slots):
                return first, second


def _contrary_wording(wording: Wording, *, similar: bool, rng: Random) -> Wording:
    """A wording whose likeness to ``wording`` says little of the meaning, or the opposite."""

    def choose(number: int) -> int:
        if rng.random() >= _CONTRARY:
            return rng.randrange(Wording.CHOICES)
        # 1 and 11 are no multiples of any number of synonyms or templates, so that the choice is another one.
        return number + rng.choice((1, 11)) if similar else number

    return Wording(*(choose(number) for number in astuple(wording)))
