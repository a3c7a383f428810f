"""Lexical features: the formula, and that they are a part of the model wherever it goes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sentrep import SentenceEncoder
from sentrep.adaptation.preparation import Remembered
from sentrep.adaptation.words import WithWords
from sentrep.cli import main
from sentrep.encoder import LexicalFeatures, Normalize, fit_lexical, with_lexical
from sentrep.encoder.encode import pad
from sentrep.errors import InputError
from support import tiny_encoder, toy_sentences


def test_the_cosine_is_the_mixture_of_both() -> None:
    texts, w = toy_sentences(60), 0.3
    encoder = tiny_encoder(pooling="mean", modules=[Normalize()])
    before = encoder.encode(texts)
    module = fit_lexical(encoder, texts, features=20)
    # by hand, from the text: one row for each distinct token of a sentence
    ids = encoder.tokenize(texts, encoder.max_seq_length)[0]
    table = module.table.double().numpy()
    words = np.stack([sum(n * 2.2 / (n + 1.2) * table[token] for token, n in Counter(row).items()) for row in ids])
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    after = with_lexical(encoder, module, w).encode(texts)
    assert encoder.embedding_dim == after.shape[1] == before.shape[1] + 20
    np.testing.assert_allclose(after @ after.T, (1 - w) * before @ before.T + w * words @ words.T, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), 1, atol=1e-6)
    tried = WithWords(Remembered(tiny_encoder(pooling="mean", modules=[Normalize()])), module, w)
    np.testing.assert_allclose(tried(texts), after, atol=1e-6)  # what `sentrep adapt` chooses and judges by
    np.testing.assert_allclose(tried.encoder.encode(texts), after, atol=1e-6)  # is what it exports
    again = with_lexical(encoder, module, 0.0).encode(texts)  # in the place of the first, not behind it
    np.testing.assert_allclose(again @ again.T, before @ before.T, atol=1e-6)


def test_with_all_directions_it_is_bm25s_weighting() -> None:
    texts = toy_sentences(30)
    encoder = tiny_encoder(pooling="mean")
    module = fit_lexical(encoder, texts, features=10**6)
    ids = encoder.tokenize(texts, encoder.max_seq_length)[0]
    found = Counter(token for row in ids for token in set(row))
    idf = {token: np.log1p((30 - n + 0.5) / (n + 0.5)) for token, n in found.items()}
    counts = np.zeros((30, encoder.vocab_size))
    for place, row in enumerate(ids):
        for token, n in Counter(row).items():
            counts[place, token] = n * 2.2 / (n + 1.2) * idf[token]
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    padded = pad(ids, encoder.tokenize.pad_token_id)
    features = module.lexical(padded.input_ids, padded.attention_mask).numpy()
    assert np.abs(features @ features.T - counts @ counts.T).mean() < 0.02  # 29 of at most 30 directions


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.filterwarnings("ignore:.*sentence-transformers has no module for LexicalFeatures")
def test_it_is_saved_loaded_and_read_by_sentence_transformers(pooling: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    texts = toy_sentences(40)
    encoder = tiny_encoder(pooling=pooling)
    with_lexical(encoder, fit_lexical(encoder, texts, features=8), 0.2).save_pretrained(tmp_path / "model")
    vectors = encoder.encode([*texts, "", "zzz " * 100])
    again = SentenceEncoder.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(again.encode([*texts, "", "zzz " * 100]), vectors)
    assert np.isfinite(vectors).all()
    other = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True).encode(texts)
    np.testing.assert_allclose(other, vectors[: len(texts)], atol=1e-6)


def test_what_is_wrong_is_said() -> None:
    encoder = tiny_encoder(pooling="mean")
    with pytest.raises(InputError, match="0 texts have too few"):
        fit_lexical(encoder, [])
    with pytest.raises(InputError, match="too few tokens"):
        fit_lexical(encoder, ["a"])
    with pytest.raises(InputError, match="weight"):
        LexicalFeatures(10, 4, weight=1.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*sentence-transformers has no module for LexicalFeatures")
def test_it_is_in_a_graph_for_onnxruntime(tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    texts = toy_sentences(40)
    encoder = tiny_encoder(pooling="mean", max_seq_length=32)
    with_lexical(encoder, fit_lexical(encoder, texts, features=8), 0.2).save_pretrained(tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), "--output", str(tmp_path / "graph"), "--format", "onnx"]) == 0
    vectors = SentenceEncoder.from_pretrained(tmp_path / "graph", backend="onnx").encode(texts)
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)
