"""BERT-whitening against numpy, and the folder it leaves behind."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from sentrep import InputError, SentenceEncoder
from sentrep.encoder import Dense, Normalize, fit_whitening, whitening
from support import text_batch, tiny_encoder, toy_sentences

CORPUS = toy_sentences(300)
HELD_OUT = toy_sentences(312)[300:]


def whitened_by_numpy(fitted: NDArray[np.float64], x: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
    """Su et al. 2021, as their code has it: SVD of the covariance, W = U Λ^(−½), (x − μ) W[:, :k]."""
    u, variances, _ = np.linalg.svd(np.cov(fitted.T))
    return ((x - fitted.mean(0)) @ (u @ np.diag(variances**-0.5)))[:, :dim]


def cosines(x: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


@pytest.mark.parametrize("dim", [None, 5])
def test_whitening_equals_numpy(dim: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whitening, "_BLOCK", 70)
    encoder = tiny_encoder(pooling="mean")
    fitted, held_out = (encoder.encode(x).astype(np.float64) for x in (CORPUS, HELD_OUT))  # type: ignore[union-attr]
    assert fit_whitening(encoder, iter(CORPUS), dim) is encoder
    vectors = encoder.encode(HELD_OUT)
    assert vectors.shape == (12, dim or 31)  # a normalised last layer leaves one direction without variance
    # directions are defined up to their sign
    np.testing.assert_allclose(cosines(vectors), cosines(whitened_by_numpy(fitted, held_out, dim or 31)), atol=1e-4)


def test_at_full_width_the_direction_that_is_only_rounding_is_left_out() -> None:
    """float64 arithmetic on float32 vectors keeps it; float64 vectors have no variance in this direction."""
    encoder = tiny_encoder(pooling="mean")
    exact, texts = copy.deepcopy(encoder).double().eval(), [*CORPUS, *HELD_OUT]
    with torch.no_grad():
        x = np.concatenate([exact(text_batch(exact, [text]).anchor).embedding.numpy() for text in texts])
    rounded = np.asarray(encoder.encode(texts), np.float64)
    assert np.linalg.matrix_rank(np.cov(x[:300].T), hermitian=True) == 31
    found = cosines(fit_whitening(encoder, CORPUS).encode(HELD_OUT))
    np.testing.assert_allclose(found, cosines(whitened_by_numpy(x[:300], x[300:], 31)), atol=1e-4)
    kept = cosines(whitened_by_numpy(rounded[:300], rounded[300:], 32))
    assert np.abs(kept - found).max() > 0.01


def test_a_whitened_encoder_is_whitened_again() -> None:
    encoder = fit_whitening(tiny_encoder(pooling="mean"), CORPUS, dim=20)
    twice = fit_whitening(encoder, CORPUS, dim=10).encode(CORPUS)
    np.testing.assert_allclose(np.cov(twice.T), np.eye(10), atol=1e-3)


@pytest.mark.parametrize("normalize", [True, False])
def test_the_folder_loads_everywhere_with_equal_vectors(normalize: bool, tmp_path: Path) -> None:
    modules = [Normalize()] if normalize else []
    encoder = fit_whitening(tiny_encoder(pooling="mean", modules=modules), CORPUS, dim=8)
    encoder.save_pretrained(tmp_path)
    expected = encoder.encode(HELD_OUT)
    np.testing.assert_array_equal(SentenceEncoder.from_pretrained(tmp_path).encode(HELD_OUT), expected)
    theirs = SentenceTransformer(str(tmp_path), device="cpu")
    assert theirs.get_embedding_dimension() == encoder.embedding_dim == 8
    np.testing.assert_allclose(theirs.encode(HELD_OUT), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("sentences", "dim", "message"),
    [
        (CORPUS, 0, "1 to 32"),
        (CORPUS, 33, "1 to 32"),
        (CORPUS[:10], None, "more than 10 sentences, which vary in 9 dimensions"),
        (CORPUS[:10], 12, "vary in 9 dimensions"),
        ([CORPUS[0]] * 50, 2, "vary in 0 dimensions"),
        ([], None, "more than 0 sentences"),
    ],
)
def test_too_little_to_whiten_on_is_refused(sentences: list[str], dim: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_whitening(tiny_encoder(pooling="mean"), sentences, dim)


def test_behind_a_tanh_it_is_a_layer_of_its_own_and_scaling_stays_last() -> None:
    encoder = tiny_encoder(modules=[Dense("tanh"), Normalize()])
    with pytest.raises(InputError, match="dim"):
        fit_whitening(encoder, CORPUS[:10], dim=20)
    assert [type(module) for module in encoder.sentence_modules] == [Dense, Normalize], "nothing has changed"
    fit_whitening(encoder, CORPUS, dim=20)
    assert [type(module) for module in encoder.sentence_modules] == [Dense, Dense, Normalize]
    encoder.set_modules(encoder.sentence_modules[:-1])
    np.testing.assert_allclose(np.cov(encoder.encode(CORPUS).T), np.eye(20), atol=1e-3)
