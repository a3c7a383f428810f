"""The embedded toy corpus: distinct, deterministic, disjoint from its graded pairs, and honest about the grades."""

from __future__ import annotations

import pytest
from scipy.stats import spearmanr

from sentrep.data import toy
from sentrep.data.toy.shipped import MODEL_MAX_LENGTH


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return toy.sentences()


def words(sentence: str) -> set[str]:
    return set(sentence.lower().strip(".?").replace(",", "").split())


def test_corpus_has_as_many_distinct_sentences_as_asked(corpus: list[str]) -> None:
    assert len(corpus) == len(set(corpus)) == 20_000


@pytest.mark.parametrize("split", ["dev", "test"])
def test_pairs_are_graded_over_the_whole_scale(split: str) -> None:
    pairs = toy.scored_pairs(split)
    assert pairs.name == f"toy-{split}"
    assert "toy" in pairs.protocol
    assert len(pairs) == len(pairs.first) == len(pairs.second) == 750
    assert all(sum(low <= score <= low + 1 for score in pairs.scores) > 40 for low in range(5))
    assert not any(one == other for one, other in zip(pairs.first, pairs.second, strict=True))


def test_common_words_say_little_of_the_grade() -> None:
    pairs = toy.scored_pairs("dev")
    overlaps = [
        len(words(one) & words(other)) / len(words(one) | words(other))
        for one, other in zip(pairs.first, pairs.second, strict=True)
    ]
    assert abs(spearmanr(overlaps, pairs.scores).statistic) < 0.4


def test_corpus_dev_and_test_share_no_sentence(corpus: list[str]) -> None:
    dev, test = (toy.scored_pairs(split) for split in ("dev", "test"))
    held_out = set(dev.first + dev.second), set(test.first + test.second)
    assert not held_out[0] & held_out[1]
    assert not (held_out[0] | held_out[1]) & set(corpus)


def test_tokenizer_knows_every_sentence(corpus: list[str]) -> None:
    tokenizer = toy.tokenizer()
    encoded = tokenizer(corpus[::4] + toy.scored_pairs("dev").second + toy.scored_pairs("test").second)["input_ids"]
    assert 2000 < len(tokenizer) < 3000
    assert max(map(len, encoded)) <= 32 < MODEL_MAX_LENGTH
    assert not any(tokenizer.unk_token_id in ids for ids in encoded)
    assert {(ids[0], ids[-1]) for ids in encoded} == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}
