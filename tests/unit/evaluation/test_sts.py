"""Scores against scipy by hand, and against the published numbers of a real model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from sentrep import SentenceEncoder
from sentrep.data import load_sts
from sentrep.data.sets.scored_pairs import ScoredPairs
from sentrep.errors import InputError
from sentrep.evaluation import evaluate_sts, sts
from sentrep.evaluation.scoring import pair_scores
from support import shared_path, tiny_encoder


@pytest.fixture
def cosines_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs have the cosine that is written in their first sentence, whatever the encoder."""

    def pairs(run: Any, first: list[str], second: list[str]) -> tuple[Tensor, Tensor]:
        cosines = torch.tensor([[float(sentence)] for sentence in first])
        return cosines, torch.ones_like(cosines)

    monkeypatch.setattr(sts, "encode_pairs", pairs)


UNUSED: Any = None
"""The encoder beside `cosines_given`."""


def make_pairs(name: str, cosines: list[float], gold: list[float]) -> ScoredPairs:
    return ScoredPairs(name, [str(c) for c in cosines], ["x"] * len(cosines), gold, "a protocol")


@pytest.mark.usefixtures("cosines_given")
def test_scores_are_scipys() -> None:
    rng = np.random.default_rng(0)
    cosines = rng.uniform(-1, 1, 40).astype(np.float32)
    gold = np.round(rng.uniform(0, 5, 40))  # with ties
    small = make_pairs("small", [0.1, 0.2, 0.3], [1.0, 3.0, 2.0])
    large, other = evaluate_sts(UNUSED, [make_pairs("sts12", cosines.tolist(), gold.tolist()), small])

    assert (large.name, large.counts, large.protocol) == ("sts12", {"pairs": 40}, "a protocol")
    assert large.main_score == pytest.approx(100 * scipy.stats.spearmanr(cosines, gold).statistic, abs=1e-9)
    assert other.main_score == pytest.approx(50.0)


@pytest.mark.usefixtures("cosines_given")
def test_what_has_no_correlation_is_an_error_that_names_the_set() -> None:
    with pytest.raises(InputError, match=r"^stsb: all 3 predicted scores equal 0\.5"):
        evaluate_sts(UNUSED, [make_pairs("stsb", [0.5] * 3, [1.0, 2.0, 3.0])])


def test_every_distinct_sentence_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_encoder().eval()
    seen: list[str] = []
    preprocess = type(encoder.model).preprocess

    def counting(self: Any, inputs: list[str], **options: Any) -> Any:
        seen.extend(inputs)
        return preprocess(self, inputs, **options)

    monkeypatch.setattr(type(encoder.model), "preprocess", counting)
    sets = [
        ScoredPairs("one", ["a man", "a dog runs"], ["a cat", "a man"], [0.0, 1.0]),
        ScoredPairs("two", ["a cat", "a bird in a tree"], ["a dog runs", "a man"], [1.0, 0.0]),
    ]
    evaluate_sts(encoder, sets)
    assert sorted(seen) == ["a bird in a tree", "a cat", "a dog runs", "a man"]
    seen.clear()
    pair_scores(encoder, sets[0])  # of a validation
    assert sorted(seen) == ["a cat", "a dog runs", "a man"]


@pytest.mark.usefixtures("cosines_given")
def test_the_fingerprint_of_a_set_follows_its_sentences_and_scores() -> None:
    def digest(cosines: list[float], gold: list[float]) -> str:
        (result,) = evaluate_sts(UNUSED, [make_pairs("stsb", cosines, gold)])
        return result.dataset

    assert digest([0.1, 0.2], [1.0, 2.0]) == digest([0.1, 0.2], [1.0, 2.0])
    assert len({digest([0.1, 0.2], [1.0, 2.0]), digest([0.1, 0.3], [1.0, 2.0]), digest([0.1, 0.2], [1.0, 3.0])}) == 3


@pytest.mark.slow
def test_a_real_model_scores_what_was_published() -> None:
    """Alignment and uniformity as the thesis takes them."""
    encoder = SentenceEncoder.from_pretrained(shared_path("models/all-MiniLM-L6-v2"))
    pairs = load_sts("stsb", shared_path("data/senteval"))
    (result,) = evaluate_sts(encoder, [pairs], show_progress_bar=False)
    assert result.counts == {"pairs": 1379}
    assert result.main_score == pytest.approx(82.03, abs=0.01)
    scores, _ = pair_scores(encoder, load_sts("stsb-dev", shared_path("data/senteval")))
    expected = {"alignment_all": 0.860, "uniformity_first": -3.846, "alignment": 0.236}
    assert {name: scores[f"stsb-dev/{name}"] for name in expected} == pytest.approx(expected, abs=5e-4)
