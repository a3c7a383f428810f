"""What the validations of a run compute: each sentence once, tokenised once and for all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer

from sentrep import SentenceEncoder
from sentrep.data import load_sts
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.evaluation.scoring import Scoring, pair_scores
from support import shared_path, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(40)
PAIRS = ScoredPairs("dev", SENTENCES[:24], SENTENCES[16:], [float(row % 5) for row in range(24)])


class Module:
    """What `Scoring` asks of a module."""

    def __init__(self, made: SentenceEncoder) -> None:
        self.encoder = made
        self.logged: list[tuple[str, float]] = []
        self.trainer = None

    def log(self, name: str, value: float, **_: Any) -> None:
        self.logged.append((name, value))


@pytest.fixture
def shapes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Of each batch that is embedded."""
    seen: list[tuple[int, ...]] = []
    preprocess = SentenceTransformer.preprocess

    def counting(self: Any, inputs: Any, **options: Any) -> Any:
        found = preprocess(self, inputs, **options)
        seen.append(tuple(found["input_ids"].shape))
        return found

    monkeypatch.setattr(SentenceTransformer, "preprocess", counting)
    return seen


@pytest.mark.slow
def test_alignment_and_uniformity_of_a_real_model_as_the_thesis_takes_them() -> None:
    encoder = SentenceEncoder.from_pretrained(shared_path("models/all-MiniLM-L6-v2"))
    scores, _ = pair_scores(encoder, load_sts("stsb-dev", shared_path("data/senteval")))
    expected = {"alignment_all": 0.860, "uniformity_first": -3.846, "alignment": 0.236}
    found = {name: scores[f"stsb-dev/{name}"] for name in expected}
    assert found == pytest.approx(expected, abs=5e-4)


def test_the_distinct_sentences_of_a_set_are_encoded_once_each_time(shapes: list[tuple[int, ...]]) -> None:
    module = Module(tiny_encoder())
    scoring: Any = Scoring("val")
    for _ in range(3):
        scoring.score(module, PAIRS)
        with torch.no_grad():
            for parameter in module.encoder.parameters():
                parameter.mul_(1.1)
    assert sum(rows for rows, _ in shapes) == 3 * len(set(SENTENCES))
    assert len(set(module.logged)) > 3  # the scores of each time are its own
