"""The words of the toy corpus, `lexicon.json`: every value of every meaning slot with its synonyms.

A domain there is a list of scenes: who (agent) does what (action) to what (object), and where (place). A verb is given
as base, past and participle, the last only where it differs from the past. Any agent, action, object and place of a
domain make a grammatical sentence together; no phrase belongs to two values of a slot.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple


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


_WORDS = json.loads(Path(__file__).with_name("lexicon.json").read_text(encoding="utf-8"))

DOMAINS: tuple[Domain, ...] = tuple(map(_domain, _WORDS["domains"].values()))
TIMES: tuple[tuple[str, ...], ...] = tuple(map(tuple, _WORDS["times"]))
MANNERS: tuple[tuple[str, ...], ...] = tuple(map(tuple, _WORDS["manners"]))
