"""Which candidate is the best: how far from the untouched model to the trained one, and how much of matching words."""

from __future__ import annotations

from dataclasses import dataclass

from sentrep.adaptation.interpolation import SHARES, interpolate
from sentrep.adaptation.preparation import Remembered
from sentrep.adaptation.words import WEIGHTS, WithWords
from sentrep.data.sets.proxy_tasks import ProxyTasks
from sentrep.encoder import LexicalFeatures
from sentrep.evaluation.proxy import CRITERION, proxy_values, rank_passages, score_rankings


@dataclass(frozen=True)
class Choice:
    """The best candidate, and what each was worth."""

    model: Remembered | WithWords
    share: float
    """Share of the trained weights."""
    weight: float
    """Weight of matching words."""
    shares: tuple[tuple[float, float], ...]
    """(share, proxy)."""
    weights: tuple[tuple[float, float], ...]
    """(weight, proxy), at the best share."""


def choose(tasks: ProxyTasks, start: Remembered, end: Remembered, words: LexicalFeatures | None = None) -> Choice:
    """The share first, the weight at that share; of equals what is nearest to the untouched model.

    Args:
        tasks: those that are held out to choose by.
        start: the untouched model.
        end: the trained one.
        words: the lexical part, of `fit_lexical`; None tries none.
    """
    mixed = {share: Remembered(interpolate(start.encoder, end.encoder, share), start.bf16) for share in SHARES}
    candidates = {0.0: start, **mixed, 1.0: end}
    shares = {share: _proxy(tasks, candidate) for share, candidate in candidates.items()}
    share = max(shares, key=lambda share: shares[share])
    worded = {} if words is None else {weight: WithWords(candidates[share], words, weight) for weight in WEIGHTS}
    weights = {0.0: shares[share]} | {weight: _proxy(tasks, candidate) for weight, candidate in worded.items()}
    weight = max(weights, key=lambda weight: weights[weight])
    model = worded.get(weight, candidates[share])
    return Choice(model, share, weight, tuple(shares.items()), tuple(weights.items()))


def _proxy(tasks: ProxyTasks, candidate: Remembered | WithWords) -> float:
    return proxy_values(score_rankings(tasks, rank_passages(tasks, candidate)))[CRITERION]
