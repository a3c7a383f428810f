"""Choose the best mixture of the untouched and the trained model, by held-out documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sentrep.adaptation.interpolation import SHARES, interpolate
from sentrep.adaptation.preparation import Remembered
from sentrep.adaptation.words import WEIGHTS, WithWords
from sentrep.data.sets.proxy_tasks import ProxyTasks, document_of
from sentrep.encoder import LexicalFeatures
from sentrep.evaluation.proxy import CRITERION, proxy_values, rank_passages, score_rankings

Item = TypeVar("Item")


@dataclass(frozen=True)
class Choice:
    """The best candidates, and the score of each."""

    model: Remembered
    share: float
    """Share of the trained weights."""
    worded: WithWords | None
    """The same model with matching words, if these score higher."""
    shares: tuple[tuple[float, float], ...]
    """(share, proxy of every second document's questions)."""
    weights: tuple[tuple[float, float], ...]
    """(weight of matching words, proxy), at the best share."""

    @property
    def gain(self) -> float:
        """The gain of matching words in the proxy score."""
        return max(value for _, value in self.weights) - self.weights[0][1]


def choose(tasks: ProxyTasks, start: Remembered, end: Remembered, words: LexicalFeatures) -> Choice:
    """Choose the share first, then the weight at that share; of equal scores, the one nearest to the untouched model.

    All shares are tried on every second document's questions. The best one must then beat the untouched model on all.

    Args:
        tasks: the tasks to choose by.
        start: the untouched model.
        end: the trained one.
        words: the lexical part, of `fit_lexical`.
    """
    half = _every_second(tasks)
    mixed = {share: Remembered(interpolate(start.encoder, end.encoder, share), start.bf16) for share in SHARES}
    candidates = {0.0: start, **mixed, 1.0: end}
    shares = {share: proxy(half, candidate) for share, candidate in candidates.items()}
    found = max(shares, key=lambda share: shares[share])
    finals = {share: proxy(tasks, candidates[share]) for share in dict.fromkeys((0.0, found))}
    share = max(finals, key=lambda share: finals[share])
    worded = {weight: WithWords(candidates[share], words, weight) for weight in WEIGHTS}
    weights = {0.0: finals[share]} | {weight: proxy(tasks, candidate) for weight, candidate in worded.items()}
    best = worded.get(max(weights, key=lambda weight: weights[weight]))
    return Choice(candidates[share], share, best, tuple(shares.items()), tuple(weights.items()))


def _every_second(tasks: ProxyTasks) -> ProxyTasks:
    """The questions of every second document, among its passages and all distractors."""
    out = set([*dict.fromkeys(map(document_of, tasks.queries))][1::2])

    def kept(items: dict[str, Item]) -> dict[str, Item]:
        return {name: item for name, item in items.items() if document_of(name) not in out}

    answers = {task: half for task, own in tasks.answers.items() if (half := kept(own))}
    return ProxyTasks(tasks.name, kept(tasks.passages), kept(tasks.queries), answers)


def proxy(tasks: ProxyTasks, candidate: Remembered | WithWords) -> float:
    """The score of a candidate on the questions: their mean nDCG@10 × 100."""
    return proxy_values(score_rankings(tasks, rank_passages(tasks, candidate)))[CRITERION]
