"""Which candidate is chosen, and by which questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from sentrep.adaptation import choice
from sentrep.data.sets.proxy_tasks import ProxyTasks

TASKS = ProxyTasks(
    "choose",
    {f"{n}.0": f"passage {n}" for n in range(4)} | {"9.t0": "other"},
    {f"{n}-title": f"title {n}" for n in range(4)},
    {"title-to-text": {f"{n}-title": {f"{n}.0": 1} for n in range(4)}},
)


def test_shares_are_tried_on_every_second_document_and_the_best_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, list[str]]] = []
    # by share of the trained weights: the score on every second document, and on all
    scores = {0.0: (10.0, 30.0), 0.25: (20.0, 0.0), 0.5: (40.0, 20.0), 0.75: (30.0, 99.0), 1.0: (15.0, 99.0)}

    class Candidate:
        def __init__(self, encoder: float, bf16: bool = False) -> None:
            self.encoder, self.bf16, self.weight = encoder, bf16, 0.0

    def proxy(tasks: ProxyTasks, candidate: Any) -> float:
        asked.append((candidate.encoder, list(tasks.queries)))
        return scores[candidate.encoder][len(tasks.queries) == 4]

    monkeypatch.setattr(choice, "Remembered", Candidate)
    monkeypatch.setattr(choice, "interpolate", lambda start, end, share: share)
    monkeypatch.setattr(choice, "WithWords", lambda candidate, words, weight: candidate)
    monkeypatch.setattr(choice, "proxy", proxy)
    nothing: Any = None
    start: Any = Candidate(0.0)
    end: Any = Candidate(1.0)
    found = choice.choose(TASKS, start, end, nothing)
    assert dict(found.shares) == {share: half for share, (half, _) in scores.items()}
    assert found.share == 0.0  # the best of them does not beat the untouched model on all
    whole = [encoder for encoder, queries in asked if len(queries) == 4]
    assert whole[:2] == [0.0, 0.5]
    scores[0.5] = (40.0, 31.0)
    assert choice.choose(TASKS, start, end, nothing).share == 0.5


def test_half_of_the_questions_keep_their_passages_and_all_others() -> None:
    half = choice._every_second(TASKS)
    assert list(half.queries) == ["0-title", "2-title"]
    assert list(half.passages) == ["0.0", "2.0", "9.t0"]
    assert half.answers == {"title-to-text": {"0-title": {"0.0": 1}, "2-title": {"2.0": 1}}}

    def encode(texts: Sequence[str]) -> Tensor:
        return torch.eye(10)[[int(text[-1]) if text[-1].isdigit() else 9 for text in texts]]

    encoder: Any = encode
    assert choice.proxy(half, encoder) == 100
