"""The embedded toy corpus: distinct, deterministic, disjoint from its graded pairs, and honest about the grades."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields, replace

import pytest
from scipy.stats import spearmanr

from sentrep.data import toy
from sentrep.data.toy.grammar import SPLITS, Meaning, Wording, draw_meaning, draw_wording, realise
from sentrep.data.toy.lexicon import DOMAINS, MANNERS, TIMES
from sentrep.data.toy.pairs import SLOT_WEIGHTS, similarity
from sentrep.data.toy.wordpiece import MODEL_MAX_LENGTH, TOKENIZER_FILE, train
from sentrep.errors import InputError

MEANING = Meaning(3, 1, 2, 0, place=4, time=2, manner=None, negated=False, question=False)


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return toy.sentences()


def words(sentence: str) -> set[str]:
    return set(sentence.lower().strip(".?").replace(",", "").split())


def test_corpus_has_as_many_distinct_sentences_as_asked(corpus: list[str]) -> None:
    assert len(corpus) == len(set(corpus)) == 30_000


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(corpus: list[str]) -> None:
    assert toy.sentences(100) == corpus[:100]
    assert toy.sentences(100, seed=1) != corpus[:100]


def test_corpus_leaves_the_global_random_state_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    toy.sentences(10)
    toy.scored_pairs("dev")
    assert random.random() == expected


def test_corpus_and_pairs_do_not_depend_on_the_hash_seed(corpus: list[str]) -> None:
    program = "from sentrep.data import toy; print(toy.sentences(50), toy.scored_pairs('test').second)"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == f"{corpus[:50]} {toy.scored_pairs('test').second}"


def test_sentences_are_well_formed(corpus: list[str]) -> None:
    for sentence in corpus:
        assert sentence[0].isupper()
        assert sentence[-1] in ".?"
        assert not re.search(r"  | [,.?]|[{_|]", sentence), sentence


def test_no_phrase_belongs_to_two_values_of_a_slot() -> None:
    slots = {
        "agents": [phrase for domain in DOMAINS for value in domain.agents for phrase in value],
        "actions": [verb for domain in DOMAINS for value in domain.actions for verb in value],
        "objects": [phrase for domain in DOMAINS for value in domain.objects for phrase in value],
        "places": [phrase for domain in DOMAINS for value in domain.places for phrase in value],
        "times": [phrase for value in TIMES for phrase in value],
        "manners": [phrase for value in MANNERS for phrase in value],
    }
    for slot, phrases in slots.items():
        assert len(phrases) == len(set(phrases)), slot


def test_every_value_has_synonyms_and_every_domain_the_same_number_of_scenes() -> None:
    for domain in DOMAINS:
        assert {len(values) for values in domain} == {5}
        assert all(len(synonyms) >= 2 for values in domain for synonyms in values)


@pytest.mark.parametrize("question", [False, True])
@pytest.mark.parametrize("negated", [False, True])
def test_every_wording_of_a_meaning_names_all_its_slots(negated: bool, question: bool) -> None:
    meaning = replace(MEANING, negated=negated, question=question, manner=1)
    domain = DOMAINS[meaning.domain]
    rng = random.Random(0)
    wordings = {realise(meaning, draw_wording(rng)) for _ in range(300)}
    assert len(wordings) > 150
    for sentence in wordings:
        lowered = sentence.lower()
        named = domain.agents[meaning.agent], domain.objects[meaning.object], domain.places[meaning.place], TIMES[2]
        for synonyms in (*named, MANNERS[1]):
            assert any(phrase.lower() in lowered for phrase in synonyms), sentence
        assert any(form in lowered for verb in domain.actions[meaning.action] for form in verb), sentence
        assert negated == bool({"not", "never"} & words(sentence)), sentence
        assert question == sentence.endswith("?")


def test_every_choice_of_a_wording_is_equally_likely() -> None:
    seen = Counter(realise(MEANING, Wording(number, *[0] * 7)) for number in range(Wording.CHOICES))
    assert len(seen) == 12
    assert set(seen.values()) == {5}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_pairs_are_graded_over_the_whole_scale(split: str) -> None:
    pairs = toy.scored_pairs(split)
    assert pairs.name == f"toy-{split}"
    assert "toy" in pairs.protocol
    assert len(pairs) == len(pairs.first) == len(pairs.second) == 750
    assert 0 <= min(pairs.scores) < 0.3
    assert max(pairs.scores) == 5.0
    assert all(sum(low <= score <= low + 1 for score in pairs.scores) > 40 for low in range(5))
    assert sum(one == other for one, other in zip(pairs.first, pairs.second, strict=True)) == 0
    assert pairs == toy.scored_pairs(split)


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


def test_meanings_are_split_in_fixed_shares() -> None:
    rng = random.Random(0)
    shares = Counter(draw_meaning(rng).split for _ in range(4000))
    assert set(shares) == set(SPLITS)
    assert shares["train"] == pytest.approx(3000, abs=150)
    assert shares["dev"] == pytest.approx(500, abs=100)


def test_grade_is_the_weight_of_the_slots_that_agree() -> None:
    assert list(SLOT_WEIGHTS) == [field.name for field in fields(Meaning)]
    assert sum(SLOT_WEIGHTS.values()) == pytest.approx(5)
    assert similarity(MEANING, MEANING) == 5.0
    for slot, weight in SLOT_WEIGHTS.items():
        if slot != "domain":
            value = getattr(MEANING, slot)
            other = replace(
                MEANING, **{slot: not value if isinstance(value, bool) else 0 if value is None else value + 1}
            )
            assert similarity(MEANING, other) == similarity(other, MEANING) == pytest.approx(5 - weight), slot


def test_values_of_another_domain_never_agree_but_empty_places_do() -> None:
    assert similarity(MEANING, replace(MEANING, domain=0)) == pytest.approx(0.6)  # time, manner, negation, question
    nowhere = replace(MEANING, place=None)
    assert similarity(nowhere, replace(nowhere, domain=0)) == pytest.approx(1.0)


def test_an_unknown_split_is_named() -> None:
    with pytest.raises(InputError, match=r"'train'.*'dev' or 'test'"):
        toy.scored_pairs("train")


def test_the_shipped_tokenizer_is_what_training_gives() -> None:
    assert json.loads(train().to_str()) == json.loads(TOKENIZER_FILE.read_text(encoding="utf-8")), (
        "the lexicon or the grammar has changed: save what `train` gives as TOKENIZER_FILE"
    )


def test_tokenizer_knows_every_sentence(corpus: list[str]) -> None:
    tokenizer = toy.tokenizer()
    encoded = tokenizer(corpus + toy.scored_pairs("dev").second + toy.scored_pairs("test").second)["input_ids"]
    assert 2000 < len(tokenizer) < 3000
    assert max(map(len, encoded)) <= 32 < MODEL_MAX_LENGTH
    assert not any(tokenizer.unk_token_id in ids for ids in encoded)
    assert {(ids[0], ids[-1]) for ids in encoded} == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}


def test_tokenizer_has_berts_special_tokens_and_lowers_case() -> None:
    tokenizer = toy.tokenizer()
    assert set(tokenizer.all_special_tokens) == {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}
    assert tokenizer("THE CHEF.")["input_ids"] == tokenizer("the chef.")["input_ids"]
    assert tokenizer.decode(tokenizer("The chef.")["input_ids"], skip_special_tokens=True) == "the chef."
