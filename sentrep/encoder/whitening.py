"""BERT-whitening: a linear layer, fitted after training, that makes every direction vary alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from sentrep.encoder import encode as encoding
from sentrep.encoder.encoder import SentenceEncoder
from sentrep.encoder.modules import Dense, Normalize, chain
from sentrep.errors import InputError
from sentrep.io.chunks import chunks_of

_BLOCK = 8192
"""Sentences encoded at a time; enough that sorting them by length leaves little padding."""
# A direction with less than this share of the largest variance is rounding: float32 vectors carry about 1e-14 of it,
# and the layer, which is applied in float32, would blow it up to the size of the others.
_SMALLEST_VARIANCE = 1e-8


def fit_whitening(
    encoder: SentenceEncoder,
    sentences: Iterable[str],
    dim: int | None = None,
    batch_size: int = 32,
    show_progress_bar: bool | None = None,
) -> SentenceEncoder:
    """Give an encoder a linear layer that whitens its vectors (Su et al. 2021, BERT-whitening).

        x̃ = Λ_k^(−½) U_kᵀ (x − μ),    Cov(x) = U Λ Uᵀ,  variances Λ falling

    On the sentences that it is fitted on, the new vectors have mean 0 and covariance I. A `Normalize` at
    the end stays there, and the new `Dense` comes before it. `SentenceEncoder.encode` applies it,
    `SentenceEncoder.save_pretrained` writes it, for sentence-transformers as a Dense layer.

    Args:
        encoder: changed in place.
        sentences: any number of sentences, read once; more than the encoder has dimensions.
        dim: k, the number of directions with the largest variance to keep; None for all with more than 1e-8 of the
            largest variance. A model whose last layer is normalised has one direction without variance, which is only
            rounding in float32 vectors, so that at most H − 1 remain.
        batch_size: as in `SentenceEncoder.encode`.
        show_progress_bar: as in `SentenceEncoder.encode`.

    Returns:
        ``encoder``.

    Raises:
        InputError: for a ``dim`` that is out of range or larger than the number of directions in which the sentences
            vary.
    """
    if dim is not None and not 1 <= dim <= encoder.embedding_dim:
        raise InputError(f"whitening keeps 1 to {encoder.embedding_dim} dimensions of this encoder, got {dim}")
    former: list[Any] = list(encoder.sentence_modules)
    kept = former[:-1] if former and isinstance(former[-1], Normalize) else former
    encoder.set_modules(kept)
    try:
        blocks = chunks_of(sentences, _BLOCK)
        vectors = (encoding.encode(encoder, block, batch_size, show_progress_bar) for block in blocks)
        count, mean, covariance = _moments(vectors, encoder.embedding_dim)
        projection = _projection(covariance, dim, count)
    finally:
        encoder.set_modules(former)
    whitening = Dense(out_features=len(projection))
    chain([whitening, *former[len(kept) :]], projection.shape[1], std=0.0)
    with torch.no_grad():
        whitening.dense.weight.copy_(projection)
        whitening.dense.bias.copy_(-projection @ mean)
    encoder.set_modules([*kept, whitening, *former[len(kept) :]])
    return encoder


def _moments(blocks: Iterable[Tensor], width: int) -> tuple[int, Tensor, Tensor]:
    """Number of rows, mean (D,) and covariance (D, D), float64, from sums of the rows' distances to the first row."""
    count, first = 0, torch.zeros(width, dtype=torch.float64)
    total, products = torch.zeros_like(first), torch.zeros(width, width, dtype=torch.float64)
    for block in blocks:
        first = block[0].double() if count == 0 else first
        rows = block.double() - first
        count += len(rows)
        total += rows.sum(0)
        products += rows.T @ rows
    mean = total / max(1, count)
    return count, first + mean, (products - count * torch.outer(mean, mean)) / max(1, count - 1)


def _projection(covariance: Tensor, dim: int | None, count: int) -> Tensor:
    """Λ_k^(−½) U_kᵀ, (k, D)."""
    variances, directions = torch.linalg.eigh(covariance)
    variances, directions = variances.flip(0), directions.flip(1)
    rank = int((variances > _SMALLEST_VARIANCE * variances[0]).sum())
    if count <= len(covariance) if dim is None else dim > rank:
        raise InputError(
            f"whitening to {'all' if dim is None else dim} of {len(covariance)} dimensions needs more than {count} "
            f"sentences, which vary in {rank} dimensions; give more of them, or set a lower dim"
        )
    return (directions[:, : dim or rank] / variances[: dim or rank].sqrt()).T
