"""Meanings and their wordings, what a toy sentence says apart from how it says it; and the sentences of the corpus."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import ClassVar, TypeVar

from sentrep.data.toy.lexicon import DOMAINS, MANNERS, TIMES, Verb

SPLITS = ("train", "dev", "test")
SCENE_SLOTS = ("agent", "action", "object", "place")
"""Slots whose values belong to a domain."""

_SCENES = len(DOMAINS[0].agents)
T = TypeVar("T")

_AT_HOME = 0.6
"""Probability that an action, object or place is the one of the agent's own scene: what gives synonyms like company."""

_STATEMENTS = (
    "{agent} {did} {object} {manner} {place} {time}.",
    "{object} {was_done} by {agent} {manner} {place} {time}.",
    "{time}, {agent} {did} {object} {manner} {place}.",
    "{place}, {object} {was_done} by {agent} {time} {manner}.",
    "{manner}, {agent} {did} {object} {time} {place}.",
    "it was {agent} who {did} {object} {place} {time} {manner}.",
    "it was {object} that {agent} {did} {manner} {time} {place}.",
    "what {agent} {did} {place} {time} {manner} was {object}.",
    "we heard that {agent} {did} {object} {time} {place} {manner}.",
    "{object} is the thing that {was_done} by {agent} {place} {manner} {time}.",
    "{agent} is the one who {did} {object} {manner} {time} {place}.",
    "{place} there was {object} that {was_done} {manner} by {agent} {time}.",
)
_QUESTIONS = (
    "did {agent} {not} {do} {object} {manner} {place} {time}?",
    "was {object} {not} {done} by {agent} {time} {place} {manner}?",
    "is it true that {agent} {did} {object} {place} {manner} {time}?",
    "{time}, was it {agent} who {did} {object} {place} {manner}?",
    "do you know whether {object} {was_done} by {agent} {manner} {time} {place}?",
)


@dataclass(frozen=True)
class Meaning:
    """The meaning slots of a sentence: numbers of values in the lexicon."""

    domain: int
    agent: int
    action: int
    object: int
    place: int | None
    time: int | None
    manner: int | None
    negated: bool
    question: bool

    @property
    def split(self) -> str:
        """Which of `SPLITS` the meaning belongs to: one in eight to dev, one in eight to test, the rest to train."""
        bucket = zlib.crc32(repr(self).encode()) % 8
        return {0: "dev", 1: "test"}.get(bucket, "train")


@dataclass(frozen=True)
class Wording:
    """How a meaning is said: which template, and which synonym in every slot (each taken modulo what there is)."""

    CHOICES: ClassVar[int] = 60
    """Numbers are drawn below this, a multiple of every number of synonyms and templates: all are equally likely."""

    template: int
    agent: int
    action: int
    object: int
    place: int
    time: int
    manner: int
    negation: int


def draw_meaning(rng: Random) -> Meaning:
    """A random meaning; actions, objects and places tend to be those of the agent's scene."""
    agent = rng.randrange(_SCENES)

    def near_agent() -> int:
        return agent if rng.random() < _AT_HOME else rng.randrange(_SCENES)

    return Meaning(
        domain=rng.randrange(len(DOMAINS)),
        agent=agent,
        action=near_agent(),
        object=near_agent(),
        place=near_agent() if rng.random() < 0.6 else None,
        time=rng.randrange(len(TIMES)) if rng.random() < 0.5 else None,
        manner=rng.randrange(len(MANNERS)) if rng.random() < 0.4 else None,
        negated=rng.random() < 0.15,
        question=rng.random() < 0.2,
    )


def draw_wording(rng: Random) -> Wording:
    """A random wording."""
    return Wording(*(rng.randrange(Wording.CHOICES) for _ in fields(Wording)))


def realise(meaning: Meaning, wording: Wording) -> str:
    """The English sentence that says ``meaning`` in ``wording``.

    Examples:
        >>> meaning = Meaning(0, 0, 0, 0, place=0, time=None, manner=0, negated=False, question=False)
        >>> realise(meaning, Wording(0, 0, 0, 0, 0, 0, 0, 0))
        'The chef prepared the soup quickly in the kitchen.'
        >>> realise(meaning, Wording(1, 1, 1, 1, 1, 0, 1, 0))
        'The broth was made by the cook swiftly at the stove.'
    """
    domain = DOMAINS[meaning.domain]
    templates = _QUESTIONS if meaning.question else _STATEMENTS
    verb = _pick(domain.actions[meaning.action], wording.action)
    sentence = _pick(templates, wording.template).format(
        agent="the " + _pick(domain.agents[meaning.agent], wording.agent),
        object="the " + _pick(domain.objects[meaning.object], wording.object),
        place=_pick_optional(domain.places, meaning.place, wording.place),
        time=_pick_optional(TIMES, meaning.time, wording.time),
        manner=_pick_optional(MANNERS, meaning.manner, wording.manner),
        **_verb_forms(verb, meaning.negated, wording.negation),
    )
    return _tidy(sentence)


def sentences(count: int = 30_000, seed: int = 0) -> list[str]:
    """Distinct English sentences from the toy grammar, the same for the same arguments on every machine.

    The grammar makes billions of sentences, so ``count`` may be large. Meanings of `scored_pairs` never occur, whatever
    the seed.

    Args:
        count: how many.
        seed: of a private generator; the global random state is left alone.

    Examples:
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


def _verb_forms(verb: Verb, negated: bool, negation: int) -> dict[str, str]:
    not_ = _pick(("not", "never"), negation) if negated else ""
    did = {"": verb.past, "not": f"did not {verb.base}", "never": f"never {verb.past}"}[not_]
    return {
        "do": verb.base,
        "did": did,
        "done": verb.participle,
        "was_done": f"was {not_} {verb.participle}",
        "not": not_,
    }


def _pick(choices: Sequence[T], number: int) -> T:
    return choices[number % len(choices)]


def _pick_optional(values: Sequence[Sequence[str]], value: int | None, number: int) -> str:
    return "" if value is None else _pick(values[value], number)


def _tidy(sentence: str) -> str:
    """Close the gaps that empty slots leave, and start with a capital."""
    sentence = re.sub(r" +", " ", sentence).strip(" ,")
    sentence = re.sub(r" ([,.?])", r"\1", sentence)
    return sentence[0].upper() + sentence[1:]
