"""Graded pairs: similarity is the agreement of the meaning slots, never of the words."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

from sentrep.data.toy.grammar import Meaning, Wording, draw_meaning, draw_wording, realise
from sentrep.types import ScoredPairs

WEIGHTS = dict(domain=1.0, agent=1.0, action=1.0, object=1.0, place=.4, time=.2, manner=.2, negated=.1, question=.1)
P_OTHER = float(os.environ.get("P_OTHER", 1.0))
P_SAME = float(os.environ.get("P_SAME", 1.0))

def similarity(first, second):
    same_domain = first.domain == second.domain
    t = 0.
    for n, w in WEIGHTS.items():
        agree = getattr(first, n) == getattr(second, n)
        if n in ("agent", "action", "object", "place"): 
            agree = agree and same_domain
        t += w * agree
    return 5 * t / sum(WEIGHTS.values())

def make(split, n, seed):
    rng = Random(seed)
    out = []
    while len(out) < n:
        a = draw_meaning(rng)
        if a.split != split: continue
        u = rng.random()
        while True:
            o = draw_meaning(rng)
            ch = {k: getattr(o, k) for k in WEIGHTS if rng.random() < (u if k != "domain" else max(0, 2*u-1))}
            b = replace(a, **ch)
            if b.split == split: break
        s = similarity(a, b)
        wa = draw_wording(rng)
        def other(x): return (x + rng.choice((1, 11))) 
        wb = []
        for x in vars(wa).values():
            r = rng.random()
            if s >= 2.5: wb.append(other(x) if r < P_OTHER else rng.randrange(60))
            else: wb.append(x if r < P_SAME else rng.randrange(60))
        out.append((realise(a, wa), realise(b, Wording(*wb)), s))
    return out
