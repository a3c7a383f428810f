"""The toy corpus: English sentences from a small grammar, graded pairs, and a tokenizer for them.

    python benchmarks/toy_corpus.py   # writes corpus.json.gz and tokenizer.json of sentrep/data/toy, always the same

A sentence says a meaning in a wording. The grade of two sentences is the agreement of their meanings, never of their
words. The words stand in `toy_lexicon.json`: every value of every meaning slot with its synonyms. A domain there is a
list of scenes: who (agent) does what (action) to what (object), and where (place). A verb is given as base, past and
participle, the last only where it differs from the past. Any agent, action, object and place of a domain make a
grammatical sentence together; no phrase belongs to two values of a slot.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple, TypeVar

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from sentrep.data.toy.shipped import CORPUS_FILE, SPECIAL_TOKENS, TOKENIZER_FILE


class Verb(NamedTuple):
    """The forms of a verb that the templates need."""

    base: str
    past: str
    participle: str


class Domain(NamedTuple):
    """A topic: for each slot its values in the order of the scenes, each value a tuple of synonyms."""

    agents: tuple[tuple[str, ...], ...]
    actions: tuple[tuple[Verb, ...], ...]
    objects: tuple[tuple[str, ...], ...]
    places: tuple[tuple[str, ...], ...]


def _domain(scenes: list[dict[str, Any]]) -> Domain:
    agents, objects, places = (tuple(tuple(scene[slot]) for scene in scenes) for slot in ("agent", "object", "place"))
    verbs = tuple(tuple(Verb(forms[0], forms[1], forms[-1]) for forms in scene["action"]) for scene in scenes)
    return Domain(agents, verbs, objects, places)


_WORDS = json.loads(Path(__file__).with_name("toy_lexicon.json").read_text(encoding="utf-8"))

DOMAINS: tuple[Domain, ...] = tuple(map(_domain, _WORDS["domains"].values()))
TIMES: tuple[tuple[str, ...], ...] = tuple(map(tuple, _WORDS["times"]))
MANNERS: tuple[tuple[str, ...], ...] = tuple(map(tuple, _WORDS["manners"]))

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


def sentences(count: int) -> list[str]:
    """Distinct sentences, of which none has a meaning of `scored_pairs`."""
    rng = Random(0)
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


def scored_pairs(split: str) -> dict[str, list[Any]]:
    """`PAIRS` pairs of a split with grades from 0 (unrelated) to 5 (the same meaning), as lists by their fields.

    The second meaning of a pair is the first with some slots drawn again, between none and all of them. So that
    counting common words does not solve it, similar pairs (grade of 2.5 or more) are often given another template and
    other synonyms, the others often the same ones. No meaning occurs in two splits.
    """
    rng = Random(zlib.crc32(split.encode()))
    meanings = [_related_meanings(split, rng) for _ in range(PAIRS)]
    scores = [similarity(first, second) for first, second in meanings]
    first, second = [], []
    for (one, other), score in zip(meanings, scores, strict=True):
        wording = draw_wording(rng)
        first.append(realise(one, wording))
        second.append(realise(other, _contrary_wording(wording, similar=score >= 2.5, rng=rng)))
    return {"first": first, "second": second, "scores": scores}


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


_VOCABULARY = 2_500


def train() -> Tokenizer:
    """The tokenizer, trained on 30,000 sentences."""
    corpus = sentences(30_000)
    trainee = _lower_casing(models.WordPiece(unk_token=SPECIAL_TOKENS["unk"]))
    # The trainer breaks ties between merges by token id, and numbers continuing letters ("##e") in random order unless
    # they come first. Only its vocabulary is kept, so that they are no special tokens in the end.
    letters = [f"##{letter}" for letter in sorted(set("".join(corpus).lower())) if letter.isalpha()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=_VOCABULARY, special_tokens=[*SPECIAL_TOKENS.values(), *letters], show_progress=False
    )
    trainee.train_from_iterator(corpus, trainer)

    trained = _lower_casing(models.WordPiece(trainee.get_vocab(), unk_token=SPECIAL_TOKENS["unk"]))
    trained.add_special_tokens(list(SPECIAL_TOKENS.values()))
    cls, sep = SPECIAL_TOKENS["cls"], SPECIAL_TOKENS["sep"]
    trained.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, trained.token_to_id(token)) for token in (cls, sep)],
    )
    trained.decoder = decoders.WordPiece()
    return trained


def _lower_casing(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def corpus() -> bytes:
    """What ships as `CORPUS_FILE`: sentences to train on, and the pairs of both splits."""
    content = {"train": sentences(20_000), **{split: scored_pairs(split) for split in SPLITS[1:]}}
    return gzip.compress(json.dumps(content).encode(), mtime=0)  # no time, so that the file is always the same


if __name__ == "__main__":
    CORPUS_FILE.write_bytes(corpus())
    train().save(str(TOKENIZER_FILE), pretty=True)
