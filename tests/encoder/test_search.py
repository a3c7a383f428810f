"""Search beside a loop over all cosines, and prompts by name beside sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sentrep import SentenceEncoder
from sentrep.encoder import search as searching
from sentrep.errors import InputError
from support import tiny_encoder, toy_sentences

PROMPTS = {"query": "who asks: ", "passage": "it says: "}


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    encoder = tiny_encoder(pooling="mean").eval()
    encoder.prompts = PROMPTS
    return encoder


def test_the_nearest_are_those_of_all_cosines(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, queries = toy_sentences(30), toy_sentences(4)
    texts[7] = texts[3]  # of equal cosines the first comes first
    found = encoder.search(queries, texts, k=6)
    corpus = np.asarray(encoder.encode([f"it says: {text}" for text in texts], normalize_embeddings=True))
    asked = np.asarray(encoder.encode([f"who asks: {text}" for text in queries], normalize_embeddings=True))
    cosine = asked @ corpus.T
    np.testing.assert_array_equal(found.indices, np.argsort(-cosine.round(6), axis=1, kind="stable")[:, :6])
    np.testing.assert_allclose(found.scores, -np.sort(-cosine, axis=1)[:, :6], atol=1e-6)
    monkeypatch.setattr(searching, "BLOCK", 7)
    for corpus_again in (texts, encoder.encode_document(texts), torch.as_tensor(corpus)):
        again = encoder.search(encoder.encode_query(queries), corpus_again, 6)
        np.testing.assert_array_equal(again.indices, found.indices)
        np.testing.assert_allclose(again.scores, found.scores, atol=1e-6)
    one = encoder.search(queries[0], texts, k=100)
    assert one.indices.shape == one.scores.shape == (30,)
    assert sorted(one.indices) == list(range(30))
    np.testing.assert_array_equal(one.indices[:6], found.indices[0])
    assert encoder.search(torch.as_tensor(asked[0]), corpus, k=1).indices.tolist() == [found.indices[0, 0]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"corpus": []}, "the corpus is empty"),
        ({"corpus": "one text"}, "the corpus is empty or one text"),
        ({"queries": []}, "queries: nothing given"),
        ({"k": 0}, "k must be 1 or more"),
        ({"corpus": np.zeros((2, 5))}, "32 and 5 dimensions"),
        ({"corpus": np.zeros(32)}, "the corpus of shape (32,)"),
        ({"corpus": np.full((2, 32), np.nan)}, "the corpus: a vector from row 0 on is not finite"),
        ({"corpus": ["a", 3]}, r"sentences\[1\] is int"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments: dict[str, Any], said: str, encoder: SentenceEncoder) -> None:
    with pytest.raises(InputError) as error:
        encoder.search(**{"queries": ["a"], "corpus": ["b"], **arguments})
    assert said in str(error.value)


@pytest.mark.slow
def test_prompts_travel_and_are_those_of_sentence_transformers(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save_pretrained(tmp_path / "model")
    again = SentenceEncoder.from_pretrained(tmp_path / "model")
    assert again.prompts == PROMPTS
    np.testing.assert_array_equal(encoder.encode("a cat"), again.encode("a cat"))  # takes none
    np.testing.assert_array_equal(encoder.encode_query("a cat"), again.encode(["who asks: a cat"])[0])
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    for name in ("encode_query", "encode_document"):
        np.testing.assert_allclose(getattr(again, name)(["a cat"]), getattr(theirs, name)(["a cat"]), atol=1e-5)
    theirs.save(str(tmp_path / "theirs"))
    read = SentenceEncoder.from_pretrained(tmp_path / "theirs").prompts
    assert read == {**PROMPTS, "document": PROMPTS["passage"]}  # theirs has an empty one, which would hide the other
    tiny_encoder(pooling="mean").save_pretrained(tmp_path / "model")
    assert not SentenceEncoder.from_pretrained(tmp_path / "model").prompts
    stored = json.loads((tmp_path / "theirs/config_sentence_transformers.json").read_text())
    (tmp_path / "theirs/config_sentence_transformers.json").write_text(json.dumps({**stored, "prompts": {"query": 3}}))
    with pytest.raises(InputError, match=r"its prompts are .* not texts by name"):
        SentenceEncoder.from_pretrained(tmp_path / "theirs")
