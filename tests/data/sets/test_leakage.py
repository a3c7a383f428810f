"""Leakage: counts against slow loops over all pairs, and what is written about them."""

from __future__ import annotations

import csv
import random
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentrep.data.sets.evaluation_texts import EvaluationTexts
from sentrep.data.sets.leakage import Overlap, SetLeakage, check_leakage, normalise
from sentrep.data.sets.near_duplicates import NearIndex, jaccard, shingles
from sentrep.data.text.corpus import open_corpus
from sentrep.evaluation.leakage_report import write_overlaps
from support import toy_sentences


def slow_normal(text: str) -> str:
    out = ""
    for character in unicodedata.normalize("NFKC", text).casefold():
        if not character.isspace():
            out += character
        elif out and not out.endswith(" "):
            out += " "
    return out.removesuffix(" ")


def slow_jaccard(first: str, second: str) -> float:
    a, b = ({f" {text} "[i : i + 3] for i in range(len(text))} for text in (first, second))
    return len(a.intersection(b)) / len(a.union(b))


def slow_counts(train: list[str], evaluation: list[str], threshold: float) -> tuple[int, int, int]:
    """Distinct evaluation sentences, exact and near ones, from all pairs."""
    exact = near = 0
    distinct = {slow_normal(text) for text in evaluation} - {""}
    lines = {slow_normal(text) for text in train} - {""}
    for sentence in distinct:
        if sentence in lines:
            exact += 1
        elif any(slow_jaccard(sentence, line) >= threshold for line in lines):
            near += 1
    return len(distinct), exact, near


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, list[str], list[str]]:
    """A training file of about 100 lines, and evaluation sentences made of some of them."""
    rng = random.Random(0)
    train = toy_sentences(90)
    train += [f"  {line.upper()} " for line in train[:10]]
    evaluation = toy_sentences(150)[120:]
    for line in train[20:60]:
        characters = list(line)
        for _ in range(rng.randint(0, 6)):
            characters[rng.randrange(len(characters))] = rng.choice("abcdefgh ")
        evaluation.append("".join(characters))
    evaluation += ["ＦＵＬＬ  Width", "", "a"]
    train += ["full width", " ", "a"]
    path = tmp_path / "train.txt"
    path.write_text("\n".join(train) + "\n", encoding="utf-8")
    return path, train, evaluation


@pytest.mark.parametrize("threshold", [0.6, 0.8, 1.0])
def test_counts_are_those_of_all_pairs(texts: tuple[Path, list[str], list[str]], threshold: float) -> None:
    path, train, evaluation = texts
    other = evaluation[40:]
    sets = [EvaluationTexts("one", evaluation), EvaluationTexts("two", other)]
    found: list[Overlap] = []
    leakage = check_leakage(open_corpus(path), sets, threshold, found=found.append)
    assert leakage.sets == [
        SetLeakage("one", *slow_counts(train, evaluation, threshold)),
        SetLeakage("two", *slow_counts(train, other, threshold)),
    ]
    assert leakage.sets[0].exact >= 2
    assert leakage.sets[0].near > 5 or threshold == 1.0
    lines = [slow_normal(line) for line in train if line.strip()]
    assert (leakage.sentences, leakage.repeated) == (len(lines), len(lines) - len(set(lines)))
    for overlap in found:
        pair = slow_normal(overlap.evaluation), slow_normal(overlap.training)
        assert overlap.jaccard == pytest.approx(slow_jaccard(*pair))
        assert (overlap.kind == "exact") == (pair[0] == pair[1])
        assert train[overlap.row - 1].strip() == overlap.training


@given(st.text(), st.text())
def test_normal_form_and_similarity_are_the_slow_ones(first: str, second: str) -> None:
    a, b = normalise(first), normalise(second)
    assert a == slow_normal(first)
    if a and b:
        assert jaccard(shingles(a), shingles(b)) == pytest.approx(slow_jaccard(a, b))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1).map(normalise).filter(bool), min_size=1, max_size=8, unique=True))
def test_near_pairs_are_verified_and_equal_strings_are_left_to_the_exact_count(sentences: list[str]) -> None:
    index = NearIndex(sentences, 0.5)
    texts = [*sentences, *(f"{sentence}." for sentence in sentences)]
    for position, sentence, similarity in index.near(texts):
        assert sentence != texts[position]
        assert similarity == pytest.approx(slow_jaccard(sentence, texts[position]))
        assert similarity >= 0.5


@pytest.mark.parametrize("threshold", [0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
def test_the_recall_at_the_threshold_is_what_the_page_says(threshold: float) -> None:
    lsh = NearIndex(["a"], threshold).lsh
    assert 1 - (1 - threshold**lsh.r) ** lsh.b >= 0.99


def test_all_sentences_of_a_row_count_and_progress_ends_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("sent0,sent1\nfirst one,second one\nfirst one,\n")
    steps: list[int] = []
    leakage = check_leakage(open_corpus(path), [EvaluationTexts("set", ["second one"])], progress=steps.append)
    assert (leakage.sentences, leakage.repeated, leakage.sets[0].exact) == (3, 1, 1)
    assert steps == [3]


def test_the_list_is_harmless_in_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "new" / "list.csv"
    write_overlaps([Overlap(("one", "two"), "near", 0.9, "=1+1, yes", "@home", 7)], path)
    rows = list(csv.reader(path.open(encoding="utf-8")))
    assert rows[0] == ["set", "kind", "jaccard", "evaluation sentence", "training sentence", "training row"]
    assert rows[1:] == [[name, "near", "0.9000", "'=1+1, yes", "'@home", "7"] for name in ("one", "two")]
